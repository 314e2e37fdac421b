#include "support/bubblewrap.h"

#include "support/measure.h"

#include <seccomp.h>

#include <cerrno>
#include <filesystem>

#include <sys/mman.h>

namespace glovebox::bench {

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
                                "--new-session"};
  if (filter != kNoFilter) argv.insert(argv.end(), {"--seccomp", std::to_string(filter)});
  argv.emplace_back("--");
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

}  // namespace glovebox::bench
