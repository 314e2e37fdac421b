// What the kernel alone takes for the steps of a start, on this machine: no box can be faster than
// the steps that it needs. Each row does one step and undoes it.

#include "support/bubblewrap.h"
#include "support/measure.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

constexpr unsigned long long kAllNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                              CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                                              CLONE_NEWCGROUP;

// A child in the named new namespaces that takes one step and ends, until it is reaped.
Result<void> child(unsigned long long namespaces, int (*step)() = nullptr) {
  clone_args how{};
  how.flags = namespaces;
  how.exit_signal = SIGCHLD;
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof(how)));
  if (pid == 0) ::_exit(step == nullptr ? 0 : step());
  if (pid < 0) return fail_os(errno, "clone3");
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return fail_os(errno, "wait");
  if (status != 0) return fail(Code::Os, "a child ended with {:#x}", status);
  return {};
}

// A filesystem that is made and never attached; it ends with its descriptor.
Result<void> mount_of(const char* type,
                      const std::vector<std::pair<const char*, std::string>>& options = {}) {
  const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, type, FSOPEN_CLOEXEC)));
  if (context.get() < 0) return fail_os(errno, "fsopen {}", type);
  for (const auto& [key, value] : options) {
    if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0) != 0) {
      return fail_os(errno, "{} {}={}", type, key, value);
    }
  }
  if (::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return fail_os(errno, "create {}", type);
  }
  const UniqueFd mount(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
  if (mount.get() < 0) return fail_os(errno, "fsmount {}", type);
  return {};
}

Result<void> clone_of_tree(const char* path) {
  const UniqueFd tree(static_cast<int>(::syscall(
      SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE)));
  if (tree.get() < 0) return fail_os(errno, "open_tree {}", path);
  return {};
}

int landlock_empty() {
  landlock_ruleset_attr nothing{};
  nothing.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE;
  const auto ruleset =
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &nothing, sizeof(nothing), 0));
  if (ruleset < 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
  return ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0 ? 0 : 1;
}

int new_network() { return ::unshare(CLONE_NEWNET) == 0 ? 0 : 1; }

// A directory with lower, upper and work, for an overlay.
class OverlayPlace {
 public:
  OverlayPlace() {
    char name[] = "/tmp/glovebox-bench-XXXXXX";
    GLOVEBOX_CHECK(::mkdtemp(name) != nullptr);
    root_ = name;
    for (const char* part : {"/lower", "/upper", "/work"}) {
      std::filesystem::create_directory(root_ + part);
    }
  }
  OverlayPlace(const OverlayPlace&) = delete;
  OverlayPlace& operator=(const OverlayPlace&) = delete;
  ~OverlayPlace() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  [[nodiscard]] Result<void> mount() const {
    return mount_of("overlay", {{"lowerdir", root_ + "/lower"},
                                {"upperdir", root_ + "/upper"},
                                {"workdir", root_ + "/work"}});
  }

 private:
  std::string root_;
};

std::vector<Row> all_rows(const std::string& tiny, const OverlayPlace& overlay) {
  return {
      {"vfork+exec, tiny static program", [&] { return spawn_and_wait({tiny}); }},
      {"vfork+exec, /usr/bin/true", [] { return spawn_and_wait({"/usr/bin/true"}); }},
      {"clone, no namespace", [] { return child(0); }},
      {"clone, user", [] { return child(CLONE_NEWUSER); }},
      {"clone, mount", [] { return child(CLONE_NEWNS); }},
      {"clone, pid", [] { return child(CLONE_NEWPID); }},
      {"clone, network", [] { return child(CLONE_NEWNET); }},
      {"clone, ipc", [] { return child(CLONE_NEWIPC); }},
      {"clone, uts", [] { return child(CLONE_NEWUTS); }},
      {"clone, cgroup", [] { return child(CLONE_NEWCGROUP); }},
      {"clone, all of them", [] { return child(kAllNamespaces); }},
      {"clone, then unshare network", [] { return child(0, new_network); }},
      {"clone, then an empty Landlock rule set", [] { return child(0, landlock_empty); }},
      {"mount tmpfs", [] { return mount_of("tmpfs"); }},
      {"mount proc", [] { return mount_of("proc"); }},
      {"mount overlay", [&] { return overlay.mount(); }},
      {"clone of the mounts below /usr", [] { return clone_of_tree("/usr"); }},
      {"clone of the mounts below /", [] { return clone_of_tree("/"); }},
  };
}

Result<void> run(int rounds) {
  if (::getuid() != 0) return fail(Code::Denied, "the steps can be taken one by one as root alone");
  TRY(const std::string tiny, install_tiny());
  const OverlayPlace overlay;
  std::vector<Row> rows = all_rows(tiny, overlay);
  TRY_VOID(run_rounds(rows, rounds));
  std::printf("%s; uid %u; %d interleaved rounds\n", host_line().c_str(), ::getuid(), rounds);
  print_table(rows, {"vfork+exec, tiny static program"});
  std::filesystem::remove(tiny);
  return {};
}

}  // namespace
}  // namespace glovebox::bench

int main(int argc, char** argv) {
  return glovebox::bench::bench_main(argc, argv, "bench_floor", 200, glovebox::bench::run);
}
