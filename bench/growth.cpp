// Whether boxes leave something behind that makes the next ones slower: many boxes in a row by one
// running launcher, the first against the last, and what the launcher holds before and after.
//
// A box is started when the one before it has been put away, so nothing is measured twice and what
// is still there at the end stays.

#include "base/file.h"
#include "base/quantity.h"
#include "host/facts.h"
#include "launch/child/init_message.h"
#include "launch/launcher_client.h"
#include "plan/make_plan.h"
#include "support/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 20;     // fills the launcher's pools
constexpr int kCompared = 100;  // at each end

struct BoxTimes {
  double started_us = 0;  // until the command runs
  double ended_us = 0;    // until its exit status is known
};

// What could grow.
struct Holdings {
  std::uint64_t mounts = 0;       // in the launcher's mount namespace
  std::uint64_t host_mounts = 0;  // in ours
  std::uint64_t cgroups = 0;      // directories of boxes, those made ahead of need included
  std::uint64_t kernel_cgroups =
      0;  // as the kernel counts them: removed ones that are still held too
  std::uint64_t descriptors = 0;
  std::uint64_t processes = 0;  // below the launcher
  std::uint64_t resident_kib = 0;
};

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::uint64_t count_lines(const std::string& path) {
  const auto text = read_file(path, 64U << 20);
  return text ? static_cast<std::uint64_t>(std::ranges::count(*text, '\n')) : 0;
}

std::uint64_t count_entries(const std::string& path) {
  std::error_code gone;  // nothing is counted then
  const auto entries = fs::directory_iterator(path, gone);
  return static_cast<std::uint64_t>(std::distance(begin(entries), end(entries)));
}

std::uint64_t count_words(const std::string& path) {
  const auto text = read_file(path);
  return text ? static_cast<std::uint64_t>(std::ranges::count(*text, ' ')) : 0;
}

// The number in the line of `file` that begins with `name`, in its column of that number.
std::uint64_t number_in(const std::string& file, std::string_view name, int column) {
  const auto text = read_file(file);
  if (!text) return 0;
  const std::size_t line = text->find(name);
  if (line == std::string::npos) return 0;
  std::size_t at = line + name.size();
  std::uint64_t value = 0;
  for (int i = 0; i < column; ++i) {
    at = text->find_first_of("0123456789", at);
    if (at == std::string::npos) return 0;
    value = 0;
    while (at < text->size() && (*text)[at] >= '0' && (*text)[at] <= '9') {
      value = value * 10 + static_cast<std::uint64_t>((*text)[at++] - '0');
    }
  }
  return value;
}

// Below each directory in which the plan makes cgroups, once.
std::uint64_t count_cgroups(const plan::LaunchPlan& plan) {
  std::uint64_t count = 0;
  std::vector<std::string> seen;
  for (const plan::Controller& controller : plan.cgroup.controllers) {
    if (std::ranges::find(seen, controller.parent) != seen.end()) continue;
    seen.push_back(controller.parent);
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(controller.parent, gone)) {
      if (entry.path().filename().string().starts_with("glovebox-")) ++count;
    }
  }
  return count;
}

Holdings take_stock(pid_t launcher, const plan::LaunchPlan& plan) {
  const std::string proc = fmt::format("/proc/{}", launcher);
  Holdings held;
  held.mounts = count_lines(proc + "/mountinfo");
  held.host_mounts = count_lines("/proc/self/mountinfo");
  held.cgroups = count_cgroups(plan);
  held.kernel_cgroups = number_in("/proc/cgroups", "\nmemory", 2);
  held.descriptors = count_entries(proc + "/fd");
  held.processes = count_words(fmt::format("{}/task/{}/children", proc, launcher));
  held.resident_kib = number_in(proc + "/status", "VmRSS:", 1);
  return held;
}

Result<BoxTimes> time_box(launch::LauncherClient& client, const plan::LaunchPlan& plan) {
  BoxTimes times;
  const Clock::time_point start = Clock::now();
  TRY(const launch::RemoteBox box, client.start_box(plan, {0, 1, 2}));
  while (true) {
    launch::Message message{};
    const ssize_t size = ::recv(box.status.get(), &message, sizeof(message), 0);
    if (size != sizeof(message)) return fail(Code::Os, "the box ended without a word");
    if (message.kind == launch::MessageKind::Exited) break;
    if (message.kind != launch::MessageKind::Started) {
      return fail(Code::Os, "step {} failed: {}", message.step, errno_text(message.os_errno));
    }
    times.started_us = us_since(start);
  }
  times.ended_us = us_since(start);
  TRY_VOID(client.await_end(box.id).map([](const auto&) {}));
  return times;
}

double median(const std::vector<BoxTimes>& times, std::size_t from, std::size_t count,
              double BoxTimes::* which) {
  std::vector<double> chosen;
  for (std::size_t i = from; i < from + count; ++i) chosen.push_back(times[i].*which);
  return percentile(chosen, 0.5);
}

void print_times(const std::vector<BoxTimes>& times) {
  const std::size_t last = times.size() - kCompared;
  const std::pair<const char*, double BoxTimes::*> rows[] = {
      {"until the command runs", &BoxTimes::started_us},
      {"until its exit status is known", &BoxTimes::ended_us}};
  std::printf("%-34s %12s %12s %8s\n", "p50 in us", "first 100", "last 100", "ratio");
  for (const auto& [name, which] : rows) {
    const double first = median(times, 0, kCompared, which);
    const double after = median(times, last, kCompared, which);
    std::printf("%-34s %12.1f %12.1f %8.3f\n", name, first, after, after / first);
    print_figure(fmt::format("{}: the last hundred of {} boxes, of the first", name, times.size()),
                 after / first, "x");
  }
}

// True when something grew that boxes must not leave behind.
bool print_holdings(const Holdings& before, const Holdings& after) {
  struct Line {
    const char* name;
    std::uint64_t before, after;
    bool may_grow;  // is told, and no failure
  };
  const Line lines[] = {
      {"mounts, launcher", before.mounts, after.mounts, false},
      {"mounts, host", before.host_mounts, after.host_mounts, false},
      {"cgroups of boxes", before.cgroups, after.cgroups, false},
      {"memory cgroups, kernel's count", before.kernel_cgroups, after.kernel_cgroups, true},
      {"descriptors, launcher", before.descriptors, after.descriptors, false},
      {"processes below the launcher", before.processes, after.processes, false},
      {"resident memory, launcher, KiB", before.resident_kib, after.resident_kib, true}};
  std::printf("\n%-34s %12s %12s %8s\n", "", "before", "after", "ratio");
  bool grew = false;
  for (const Line& line : lines) {
    const double ratio = line.before == 0
                             ? (line.after == 0 ? 1.0 : 0.0)
                             : static_cast<double>(line.after) / static_cast<double>(line.before);
    std::printf("%-34s %12llu %12llu %8.3f\n", line.name,
                static_cast<unsigned long long>(line.before),
                static_cast<unsigned long long>(line.after), ratio);
    grew = grew || (!line.may_grow && line.after > line.before);
  }
  print_note(grew ? "boxes left something behind"
                  : "no mount, cgroup, descriptor or process of a box was left behind");
  return grew;
}

Result<plan::LaunchPlan> plan_for(const std::vector<std::string>& command) {
  plan::SandboxSpec spec;
  spec.command = command;
  TRY(const host::HostFacts facts, host::read_facts());
  return plan::make_plan(spec, facts);
}

// The launcher makes cgroups and networks ahead of need while it has nothing else to do.
void let_it_settle() { ::usleep(200'000); }

Result<bool> run(int boxes) {
  const std::string launcher =
      fs::read_symlink("/proc/self/exe").parent_path() / "glovebox-launcher";
  TRY(launch::LauncherClient client, launch::LauncherClient::start(launcher));
  TRY(const plan::LaunchPlan plan, plan_for({"/usr/bin/true"}));
  for (int i = 0; i < kWarmUp; ++i) TRY_VOID(time_box(client, plan).map([](const auto&) {}));
  let_it_settle();
  const Holdings before = take_stock(client.pid(), plan);
  std::vector<BoxTimes> times;
  times.reserve(static_cast<std::size_t>(boxes));
  for (int i = 0; i < boxes; ++i) {
    TRY(const BoxTimes one, time_box(client, plan));
    times.push_back(one);
  }
  let_it_settle();
  const Holdings after = take_stock(client.pid(), plan);
  std::printf("%s; uid %u; %d boxes in a row by one launcher\n\n", host_line().c_str(), ::getuid(),
              boxes);
  print_times(times);
  return print_holdings(before, after);
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  const auto boxes =
      argc > 1 ? glovebox::parse_count(argv[1]) : glovebox::Result<std::uint64_t>(1000);
  if (!boxes || *boxes < 200 || *boxes > 1'000'000) {
    (void)std::fprintf(stderr, "usage: bench_growth [BOXES]   (200 or more)\n");
    return 125;
  }
  const auto grew = glovebox::bench::run(static_cast<int>(*boxes));
  if (!grew) {
    (void)std::fprintf(stderr, "bench_growth: %s\n", grew.error().message.c_str());
    return 1;
  }
  if (*grew) (void)std::fprintf(stderr, "bench_growth: boxes left something behind\n");
  return *grew ? 1 : 0;
}
