// What it costs to start a box, next to the floor (plain vfork and exec) and to bubblewrap.
//
// bubblewrap gets the same namespaces and an equivalent view of the system, and a seccomp filter;
// it has no cgroups and no Landlock, ours has both. "until the exit status is known" for every row.

#include "base/file.h"
#include "base/quantity.h"
#include "host/facts.h"
#include "launch/child/message.h"
#include "launch/client.h"
#include "plan/make_plan.h"
#include "support/measure.h"

#include <seccomp.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

constexpr const char* kBubblewrap = "/usr/bin/bwrap";

std::string beside_me(const char* name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

// A deny-list filter as people give it to bubblewrap, in a memfd that it can read again and again.
Result<UniqueFd> bubblewrap_filter() {
  const scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ALLOW);
  for (const char* name : {"ptrace", "keyctl", "add_key", "request_key", "bpf", "userfaultfd",
                           "perf_event_open", "io_uring_setup", "mount", "umount2", "unshare",
                           "setns", "kexec_load", "init_module", "process_vm_readv"}) {
    ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), ::seccomp_syscall_resolve_name(name), 0);
  }
  UniqueFd memory(::memfd_create("filter", 0));  // NOLINT: bubblewrap must inherit it
  const int exported = ::seccomp_export_bpf(filter, memory.get());
  ::seccomp_release(filter);
  if (exported != 0) return fail_os(-exported, "export a filter");
  return memory;
}

std::vector<std::string> bubblewrap(int filter, const std::vector<std::string>& command) {
  std::vector<std::string> argv{kBubblewrap,
                                "--unshare-all",
                                "--ro-bind",
                                "/usr",
                                "/usr",
                                "--ro-bind",
                                "/etc",
                                "/etc",
                                "--symlink",
                                "usr/bin",
                                "/bin",
                                "--symlink",
                                "usr/sbin",
                                "/sbin",
                                "--symlink",
                                "usr/lib",
                                "/lib",
                                "--symlink",
                                "usr/lib64",
                                "/lib64",
                                "--proc",
                                "/proc",
                                "--dev",
                                "/dev",
                                "--tmpfs",
                                "/tmp",
                                "--tmpfs",
                                "/run",
                                "--tmpfs",
                                "/home",
                                "--die-with-parent",
                                "--new-session",
                                "--seccomp",
                                std::to_string(filter),
                                "--"};
  argv.insert(argv.end(), command.begin(), command.end());
  return argv;
}

// The system view has no place for the tiny program, so it is put where both see it.
Result<std::string> install_tiny() {
  std::string place = "/usr/local/bin/glovebox-bench-tiny";
  std::error_code problem;
  std::filesystem::copy_file(beside_me("bench_tiny"), place,
                             std::filesystem::copy_options::overwrite_existing, problem);
  if (problem) return fail(Code::Os, "copy the tiny program to {}: {}", place, problem.message());
  return place;
}

Result<void> one_box(launch::LauncherClient& client, const plan::LaunchPlan& plan) {
  TRY(const launch::RemoteBox box, client.start_box(plan, {0, 1, 2}));
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

Result<void> run(int rounds) {
  TRY(const std::string tiny, install_tiny());
  TRY(const UniqueFd filter, bubblewrap_filter());
  TRY(launch::LauncherClient client, launch::LauncherClient::start(beside_me("glovebox-launcher")));
  TRY(const plan::LaunchPlan tiny_plan, plan_for({tiny}));
  TRY(const plan::LaunchPlan true_plan, plan_for({"/usr/bin/true"}));
  const std::string glovebox = beside_me("glovebox");
  const auto with_filter = [&](const std::vector<std::string>& command) -> Result<void> {
    (void)::lseek(filter.get(), 0, SEEK_SET);
    return spawn_and_wait(bubblewrap(filter.get(), command));
  };

  std::vector<Row> rows{
      {"vfork+exec, tiny static program", [&] { return spawn_and_wait({tiny}); }},
      {"vfork+exec, /usr/bin/true", [] { return spawn_and_wait({"/usr/bin/true"}); }},
      {"running launcher, cold box, limits, tiny program",
       [&] { return one_box(client, tiny_plan); }},
      {"running launcher, cold box, limits, /usr/bin/true",
       [&] { return one_box(client, true_plan); }},
      {"glovebox run -- tiny program",
       [&] { return spawn_and_wait({glovebox, "run", "--", tiny}); }},
      {"glovebox run -- true",
       [&] { return spawn_and_wait({glovebox, "run", "--", "/usr/bin/true"}); }},
      {"bubblewrap, tiny program", [&] { return with_filter({tiny}); }},
      {"bubblewrap, true", [&] { return with_filter({"/usr/bin/true"}); }},
  };
  TRY_VOID(run_rounds(rows, rounds));
  std::printf("%s; uid %u; %d interleaved rounds; p50 of the time until the exit status is known\n",
              host_line().c_str(), ::getuid(), rounds);
  print_table(rows, {"vfork+exec, tiny static program", "bubblewrap, true"});
  std::filesystem::remove(tiny);
  return {};
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  const auto rounds =
      argc > 1 ? glovebox::parse_count(argv[1]) : glovebox::Result<std::uint64_t>(300);
  if (!rounds || *rounds == 0 || *rounds > 100'000) {
    (void)std::fprintf(stderr, "usage: bench_spawn [ROUNDS]\n");
    return 125;
  }
  const auto done = glovebox::bench::run(static_cast<int>(*rounds));
  if (done) return 0;
  (void)std::fprintf(stderr, "bench_spawn: %s\n", done.error().message.c_str());
  return 1;
}
