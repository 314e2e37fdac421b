// What a run in a session costs, next to bash behind a pipe in bubblewrap, and what it costs to get
// a session, next to a fresh bubblewrap with bash.

#include "base/quantity.h"
#include "host/facts.h"
#include "launch/launcher_client.h"
#include "plan/make_plan.h"
#include "session/box/blocking_session.h"
#include "support/bubblewrap.h"
#include "support/measure.h"
#include "support/relay.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

constexpr const char* kTiny = "/usr/local/bin/glovebox-bench-tiny";

// bash in bubblewrap that reads commands from a pipe; the end of each is a line that it prints.
class PipedShell {
 public:
  static Result<PipedShell> start() {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return fail_os(errno, "pipe");
    const std::vector<std::string> words =
        bubblewrap(kNoFilter, {"/bin/bash", "--norc", "--noprofile"});
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&files, out[1], 1);
    PipedShell shell;
    const int error = ::posix_spawn(&shell.pid_, argv[0], &files, nullptr, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(in[0]);
    ::close(out[1]);
    shell.in_ = UniqueFd(in[1]);
    shell.out_ = UniqueFd(out[0]);
    if (error != 0) return fail_os(error, "start bubblewrap");
    return shell;
  }

  Result<void> run(const std::string& code) {
    const std::string line = code + "\necho \"--end-- $?\"\n";
    if (::write(in_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      return fail_os(errno, "write to bash");
    }
    std::string seen;
    char buffer[4096];
    while (seen.find("--end--") == std::string::npos || !seen.ends_with('\n')) {
      const ssize_t size = ::read(out_.get(), buffer, sizeof(buffer));
      if (size <= 0) return fail_os(errno, "read from bash");
      seen.append(buffer, static_cast<std::size_t>(size));
    }
    return {};
  }

  void stop() {
    in_.reset();
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  UniqueFd in_, out_;
  pid_t pid_ = 0;
};

constexpr const char* kPlainTiny = "vfork+exec, tiny static program";
constexpr const char* kPipedBuiltin = "bash in bubblewrap behind a pipe, builtin";
constexpr const char* kPipedTiny = "bash in bubblewrap behind a pipe, tiny program";
constexpr const char* kBubblewrapBash = "bubblewrap + bash -c 'echo hi'";
constexpr const char* kBuiltin = "session, builtin";
constexpr const char* kTinyFromShell = "session, tiny program from the shell";
constexpr const char* kFirstOutput = "session from nothing to its first output";
constexpr const char* kParkedFirstOutput =
    "session in a parked box, from nothing to its first output";

Result<void> ignore(guest::Stream, std::string_view) { return {}; }

Result<void> run_code(session::Session& session, const session::RunRequest& request) {
  TRY(const session::RunResult result, session.run(request, ignore));
  if (result.code != 0) return fail(Code::Os, "a run ended with {}", result.code);
  return {};
}

Result<void> run(int rounds) {
  std::filesystem::copy_file(beside_me("bench_tiny"), kTiny,
                             std::filesystem::copy_options::overwrite_existing);
  TRY(launch::LauncherClient launcher,
      launch::LauncherClient::start(beside_me("glovebox-launcher")));
  TRY(launch::LauncherClient parking,
      launch::LauncherClient::start(beside_me("glovebox-launcher")));
  plan::SandboxSpec spec;
  spec.resident = plan::Resident::Agent;
  TRY(const host::HostFacts facts, host::read_facts());
  TRY(const plan::LaunchPlan plan, plan::make_plan(spec, facts));
  TRY(session::Session warm, session::Session::start(launcher, plan, {}));
  TRY(PipedShell piped, PipedShell::start());
  session::RunRequest builtin;
  builtin.code = "echo hi";
  session::RunRequest external;
  external.code = kTiny;
  session::RunRequest direct;
  direct.argv = {kTiny};

  // The agent and the shell: no run takes less.
  TRY(Relay relay, Relay::start(2));
  std::vector<Row> rows{
      {"a byte through two processes and back", [&] { return relay.there_and_back(); }},
      {kPlainTiny, [] { return spawn_and_wait({kTiny}); }},
      {kPipedBuiltin, [&] { return piped.run("echo hi"); }},
      {kBuiltin, [&] { return run_code(warm, builtin); }},
      {kPipedTiny, [&] { return piped.run(kTiny); }},
      {kTinyFromShell, [&] { return run_code(warm, external); }},
      {"session, tiny program without a shell", [&] { return run_code(warm, direct); }},
      {kBubblewrapBash,
       [] {
         return spawn_and_wait(bubblewrap(kNoFilter, {"/bin/bash", "-c", "echo hi >/dev/null"}));
       }},
      {kFirstOutput,
       [&]() -> Result<void> {
         TRY(session::Session fresh, session::Session::start(launcher, plan, {}));
         return run_code(fresh, builtin);
       }},
      {kParkedFirstOutput,
       [&]() -> Result<void> {
         session::SessionSettings settings;
         settings.keep_parked = 4;
         TRY(session::Session fresh, session::Session::start(parking, plan, settings));
         return run_code(fresh, builtin);
       }},
  };
  TRY_VOID(run_rounds(rows, rounds));
  std::printf("%s; uid %u; %d interleaved rounds\n", host_line().c_str(), ::getuid(), rounds);
  print_table(rows, {kPipedBuiltin, kBubblewrapBash});
  print_ratio(rows, kBuiltin, kPipedBuiltin, at_most(2));
  print_ratio(rows, kTinyFromShell, kPipedTiny, at_most(2));
  print_ratio(rows, kFirstOutput, kBubblewrapBash, at_most(0.35));
  print_ratio(rows, kParkedFirstOutput, kBubblewrapBash, at_most(0.15));
  piped.stop();
  std::filesystem::remove(kTiny);
  return {};
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  return glovebox::bench::bench_main(argc, argv, "bench_session", 200, glovebox::bench::run);
}
