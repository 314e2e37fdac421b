// What it costs to start a box, next to the floor (plain vfork and exec) and to bubblewrap.
//
// bubblewrap gets the same namespaces and an equivalent view of the system, and a seccomp filter;
// it has no cgroups and no Landlock, ours has both. "until the exit status is known" for every row.

#include "host/facts.h"
#include "launch/child/init_message.h"
#include "launch/launcher_client.h"
#include "plan/make_plan.h"
#include "support/bubblewrap.h"
#include "support/measure.h"

#include <cstdio>
#include <filesystem>

#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

constexpr std::uint32_t kParked = 4;

constexpr const char* kPlainTiny = "vfork+exec, tiny static program";
constexpr const char* kPlainTrue = "vfork+exec, /usr/bin/true";
constexpr const char* kColdTiny = "running launcher, cold box, limits, tiny program";
constexpr const char* kParkedTiny = "running launcher, parked box, limits, tiny program";
constexpr const char* kParkedTrue = "running launcher, parked box, limits, /usr/bin/true";
constexpr const char* kCommandTrue = "glovebox run -- true";
constexpr const char* kBubblewrapTiny = "bubblewrap, tiny program";
constexpr const char* kBubblewrapTrue = "bubblewrap, true";

Result<void> one_box(launch::LauncherClient& client, const plan::LaunchPlan& plan,
                     std::uint32_t keep_parked = 0) {
  TRY(const launch::RemoteBox box, client.start_box(plan, {0, 1, 2}, keep_parked));
  while (true) {
    launch::Message message{};
    const ssize_t size = ::recv(box.status.get(), &message, sizeof(message), 0);
    if (size != sizeof(message)) return fail(Code::Os, "the box ended without a word");
    if (message.kind == launch::MessageKind::Exited) return {};
    if (message.kind != launch::MessageKind::Started) {
      return fail(Code::Os, "step {} failed: {}", message.step, errno_text(message.os_errno));
    }
  }
}

Result<plan::LaunchPlan> plan_for(const std::vector<std::string>& command) {
  plan::SandboxSpec spec;
  spec.command = command;
  TRY(const host::HostFacts facts, host::read_facts());
  return plan::make_plan(spec, facts);
}

void print_figures(const std::vector<Row>& rows) {
  print_ratio(rows, kColdTiny, kPlainTiny, at_most(3));
  print_ratio(rows, kColdTiny, kBubblewrapTiny, at_most(0.15));
  print_ratio(rows, kParkedTiny, kPlainTiny, at_most(2));
  print_ratio(rows, kParkedTrue, kPlainTrue, at_most(1.15));
  print_ratio(rows, kCommandTrue, kBubblewrapTrue, at_most(0.40));
}

Result<void> run(int rounds) {
  TRY(const std::string tiny, install_tiny());
  TRY(const UniqueFd filter, bubblewrap_filter());
  TRY(launch::LauncherClient client, launch::LauncherClient::start(beside_me("glovebox-launcher")));
  TRY(launch::LauncherClient parking,
      launch::LauncherClient::start(beside_me("glovebox-launcher")));
  TRY(const plan::LaunchPlan tiny_plan, plan_for({tiny}));
  TRY(const plan::LaunchPlan true_plan, plan_for({"/usr/bin/true"}));
  const std::string glovebox = beside_me("glovebox");
  const auto with_filter = [&](const std::vector<std::string>& command) -> Result<void> {
    (void)::lseek(filter.get(), 0, SEEK_SET);
    return spawn_and_wait(bubblewrap(filter.get(), command));
  };

  std::vector<Row> rows{
      {kPlainTiny, [&] { return spawn_and_wait({tiny}); }},
      {kPlainTrue, [] { return spawn_and_wait({"/usr/bin/true"}); }},
      {kColdTiny, [&] { return one_box(client, tiny_plan); }},
      {"running launcher, cold box, limits, /usr/bin/true",
       [&] { return one_box(client, true_plan); }},
      {kParkedTiny, [&] { return one_box(parking, tiny_plan, kParked); }},
      {kParkedTrue, [&] { return one_box(parking, true_plan, kParked); }},
      {"glovebox run -- tiny program",
       [&] { return spawn_and_wait({glovebox, "run", "--", tiny}); }},
      {kCommandTrue, [&] { return spawn_and_wait({glovebox, "run", "--", "/usr/bin/true"}); }},
      {kBubblewrapTiny, [&] { return with_filter({tiny}); }},
      {kBubblewrapTrue, [&] { return with_filter({"/usr/bin/true"}); }},
  };
  TRY_VOID(run_rounds(rows, rounds));
  std::printf("%s; uid %u; %d interleaved rounds; p50 of the time until the exit status is known\n",
              host_line().c_str(), ::getuid(), rounds);
  print_table(rows, {kPlainTiny, kPlainTrue, kBubblewrapTrue});
  print_figures(rows);
  std::filesystem::remove(tiny);
  return {};
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  return glovebox::bench::bench_main(argc, argv, "bench_spawn", 300, glovebox::bench::run);
}
