// Sessions of a service: what a run costs next to the synchronous interface, how many sessions come
// and go in a second, what a proof adds, how fast output streams, and what sessions that do nothing
// cost.

#include "base/file.h"
#include "base/quantity.h"
#include "host/facts.h"
#include "launch/launcher_client.h"
#include "plan/make_plan.h"
#include "session/box/blocking_session.h"
#include "session/manager/session_manager.h"
#include "support/managed.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using namespace glovebox::session;

constexpr std::size_t kStreamed = std::size_t{1} << 30;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Count final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream /*stream*/, std::string_view bytes) override {
    bytes_ += bytes.size();
    co_return Result<void>();
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

RunRequest code(const char* text) {
  RunRequest request;
  request.code = text;
  return request;
}

Result<void> compare_runs(Managed& bench, int rounds) {
  TRY(launch::LauncherClient launcher,
      launch::LauncherClient::start(beside_me("glovebox-launcher")));
  plan::SandboxSpec spec;
  spec.resident = plan::Resident::Agent;
  TRY(const host::HostFacts facts, host::read_facts());
  TRY(const plan::LaunchPlan plan, plan::make_plan(spec, facts));
  TRY(Session synchronous, Session::start(launcher, plan, {}));
  TRY(const SessionInfo info, bench.await(bench.manager().create(bench.request())));
  TRY(const std::shared_ptr<LiveSession> live, bench.manager().attach(info.id));
  const auto ignore = [](guest::Stream, std::string_view) { return Result<void>(); };
  Count count;
  std::vector<Row> rows{{"run of : through Session",
                         [&]() -> Result<void> {
                           TRY_VOID(synchronous.run(code(":"), ignore));
                           return {};
                         }},
                        {"run of : through LiveSession", [&]() -> Result<void> {
                           TRY_VOID(bench.await(live->run(code(":"), count)));
                           return {};
                         }}};
  TRY_VOID(run_rounds(rows, rounds));
  print_table(rows, {"run of : through Session"});
  TRY_VOID(bench.await(bench.manager().remove(info.id, LayerFate::Remove)));
  return {};
}

// CPU time of this process, of its children, and of theirs that have ended, in milliseconds.
double cpu_of_all() {
  std::uint64_t ticks = 0;
  std::vector<std::string> pids{"self"};
  std::istringstream children(read_file("/proc/thread-self/children").value_or(""));
  for (std::string pid; children >> pid;) pids.push_back(pid);
  for (const std::string& pid : pids) {
    const auto stat = read_file("/proc/" + pid + "/stat");
    if (!stat) continue;
    std::istringstream rest(stat->substr(stat->rfind(')') + 2));
    std::string word;
    for (int field = 3; field <= 17 && rest >> word; ++field) {
      if (field >= 14) ticks += std::stoull(word);  // utime, stime, cutime, cstime
    }
  }
  return 1000.0 * static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// What a proof adds to the start of a session.
Result<void> measure_proof(Managed& bench, int rounds) {
  std::vector<double> plain;
  std::vector<double> proved;
  for (int i = 0; i < rounds; ++i) {
    for (const bool prove : {false, true}) {
      BoxRequest request = bench.request();
      request.prove = prove;
      const auto start = Clock::now();
      TRY(const SessionInfo info, bench.await(bench.manager().create(std::move(request))));
      (prove ? proved : plain).push_back(seconds_since(start) * 1000);
      TRY_VOID(bench.await(bench.manager().remove(info.id, LayerFate::Remove)));
    }
  }
  print_figure("what a proof adds to a start", percentile(proved, 0.5) - percentile(plain, 0.5),
               "ms", at_most(5));
  return {};
}

// How long each part of a session's life took, in milliseconds.
struct Lives {
  int left = 0;
  int failed = 0;
  std::vector<double> create;
  std::vector<double> run;
  std::vector<double> remove;
};

asio::awaitable<void> come_and_go(Managed& bench, Lives& lives) {
  while (lives.left > 0) {
    --lives.left;
    const auto born = Clock::now();
    const auto made = co_await bench.manager().create(bench.request());
    if (!made) {
      ++lives.failed;
      continue;
    }
    const auto created = Clock::now();
    const auto session = bench.manager().attach(made->id);
    Count count;
    const auto result = co_await (*session)->run(code("echo hi"), count);
    if (!result || result->code != 0) ++lives.failed;
    const auto ran = Clock::now();
    const auto removed = co_await bench.manager().remove(made->id, LayerFate::Remove);
    if (!removed) ++lives.failed;
    lives.create.push_back(std::chrono::duration<double, std::milli>(created - born).count());
    lives.run.push_back(std::chrono::duration<double, std::milli>(ran - created).count());
    lives.remove.push_back(std::chrono::duration<double, std::milli>(Clock::now() - ran).count());
  }
}

void measure_turnover(Managed& bench, int total, int at_a_time) {
  Lives lives;
  lives.left = total;
  int ended = 0;
  const auto start = Clock::now();
  const double cpu = cpu_of_all();
  for (int i = 0; i < at_a_time; ++i) {
    asio::co_spawn(bench.loop(), come_and_go(bench, lives),
                   [&](const std::exception_ptr&) { ++ended; });
  }
  bench.loop().restart();
  while (ended < at_a_time) bench.loop().run_one();
  if (lives.failed > 0) print_note(fmt::format("{} sessions failed", lives.failed));
  const auto named = [at_a_time](const char* what) {
    return fmt::format("{}, {} at a time", what, at_a_time);
  };
  print_figure(named("create + run + delete"), total / seconds_since(start), "/s");
  std::printf("  %.1f ms of CPU each; p50 %.1f + %.1f + %.1f ms\n", (cpu_of_all() - cpu) / total,
              percentile(lives.create, 0.5), percentile(lives.run, 0.5),
              percentile(lives.remove, 0.5));
}

// The same bytes through a pipe of this process's own.
Result<double> pipe_seconds() {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return fail_os(errno, "pipe");
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, pipe[1], 1);
  const std::string size = std::to_string(kStreamed);
  char* argv[] = {const_cast<char*>("head"), const_cast<char*>("-c"),
                  const_cast<char*>(size.c_str()), const_cast<char*>("/dev/zero"), nullptr};
  pid_t pid = 0;
  const auto start = Clock::now();
  const int problem = ::posix_spawn(&pid, "/usr/bin/head", &files, nullptr, argv, environ);
  ::close(pipe[1]);
  if (problem != 0) return fail_os(problem, "start head");
  std::vector<char> buffer(256 << 10);
  while (::read(pipe[0], buffer.data(), buffer.size()) > 0) {
  }
  ::close(pipe[0]);
  ::waitpid(pid, nullptr, 0);
  return seconds_since(start);
}

Result<void> measure_stream(Managed& bench) {
  TRY(const SessionInfo info, bench.await(bench.manager().create(bench.request())));
  TRY(const std::shared_ptr<LiveSession> live, bench.manager().attach(info.id));
  const std::string text = "head -c " + std::to_string(kStreamed) + " /dev/zero";
  std::vector<double> parts;
  for (int i = 0; i < 3; ++i) {
    TRY(const double bare, pipe_seconds());
    Count count;
    const auto start = Clock::now();
    TRY_VOID(bench.await(live->run(code(text.c_str()), count)));
    const double session = seconds_since(start);
    std::printf("1 GiB of output: pipe %.0f MiB/s, session %.0f MiB/s\n", 1024 / bare,
                1024 / session);
    parts.push_back(100 * bare / session);
  }
  print_figure("1 GiB of output through a session, of a pipe", percentile(parts, 0.5), "%",
               at_least(80));
  TRY_VOID(bench.await(bench.manager().remove(info.id, LayerFate::Remove)));
  return {};
}

// Memory of this process and everything below it, shared pages counted by share.
std::uint64_t memory_of_all() {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto stat = read_file(entry.path() / "stat");
    if (!stat) continue;
    std::istringstream rest(stat->substr(stat->rfind(')') + 2));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    children.emplace(parent, std::stoi(name));
  }
  std::vector<pid_t> all{::getpid()};
  std::uint64_t kib = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [first, last] = children.equal_range(all[i]);
    for (auto it = first; it != last; ++it) all.push_back(it->second);
    const auto text = read_file("/proc/" + std::to_string(all[i]) + "/smaps_rollup");
    const std::size_t at = text ? text->find("\nPss:") : std::string::npos;
    if (at != std::string::npos) kib += std::stoull(text->substr(at + 5));
  }
  return kib << 10;
}

// What one more session costs while many live, and what a run in one of them does.
struct Crowd {
  std::vector<std::string> ids;
  std::vector<double> made_ms;

  Result<void> grow_to(Managed& bench, std::size_t many) {
    Count count;
    made_ms.clear();
    while (ids.size() < many) {
      const auto start = Clock::now();
      TRY(const SessionInfo info, bench.await(bench.manager().create(bench.request())));
      TRY(const std::shared_ptr<LiveSession> live, bench.manager().attach(info.id));
      TRY_VOID(bench.await(live->run(code("cd /tmp; x=1"), count)));
      made_ms.push_back(seconds_since(start) * 1000);
      ids.push_back(info.id);
    }
    return {};
  }
  // In milliseconds, in sessions all over the crowd.
  Result<double> run_once(Managed& bench) {
    Count count;
    std::vector<double> took;
    for (std::size_t i = 0; i < 200; ++i) {
      TRY(const std::shared_ptr<LiveSession> live, bench.manager().attach(ids[i * 7 % ids.size()]));
      const auto start = Clock::now();
      TRY_VOID(bench.await(live->run(code(":"), count)));
      took.push_back(seconds_since(start) * 1000);
    }
    return percentile(took, 0.5);
  }
};

// One plot is made of these figures: their names end with the number of sessions.
Result<void> measure_scaling(Managed& bench) {
  const std::uint64_t before = memory_of_all();
  Crowd crowd;
  for (const std::size_t many : {1U, 10U, 100U, 500U, 1'000U}) {
    TRY_VOID(crowd.grow_to(bench, many));
    TRY(const double run_ms, crowd.run_once(bench));
    const double each =
        static_cast<double>(memory_of_all() - before) / 1024 / static_cast<double>(many);
    const auto named = [many](const char* what) { return fmt::format("{}, live: {}", what, many); };
    print_figure(named("create and first run"), percentile(crowd.made_ms, 0.5), "ms");
    print_figure(named("run of ':'"), run_ms, "ms");
    print_figure(named("memory of an idle session (PSS)"), each, "KiB",
                 many >= 100 ? std::optional(at_most(2048)) : std::nullopt);
  }
  const auto start = Clock::now();
  for (const std::string& id : crowd.ids) {
    TRY_VOID(bench.await(bench.manager().remove(id, LayerFate::Remove)));
  }
  print_figure("end of a session, of 1,000", seconds_since(start), "ms");
  return {};
}

Result<void> run(int rounds) {
  std::signal(SIGPIPE, SIG_IGN);
  TRY(const std::unique_ptr<Managed> bench, Managed::open());
  std::printf("%s; uid %u; %d rounds\n", host_line().c_str(), ::getuid(), rounds);
  TRY_VOID(compare_runs(*bench, rounds));
  TRY_VOID(measure_proof(*bench, rounds / 10));
  for (const int at_a_time : {1, 2, 4, 8, 32}) measure_turnover(*bench, rounds, at_a_time);
  TRY_VOID(measure_stream(*bench));
  return measure_scaling(*bench);
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  return glovebox::bench::bench_main(argc, argv, "bench_live_sessions", 500, glovebox::bench::run);
}
