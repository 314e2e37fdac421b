#include "doctor/probe_remedy.h"

#include "base/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace glovebox::host::probe {
namespace {

std::optional<long> read_number(const char* path) {
  const auto text = read_file(path, 64);
  long value = 0;
  if (!text) return std::nullopt;
  const auto done = std::from_chars(text->data(), text->data() + text->size(), value);
  if (done.ec != std::errc()) return std::nullopt;
  return value;
}

bool exists(const char* path) { return ::access(path, F_OK) == 0; }

bool is_on(const char* path, std::int64_t magic) {
  struct statfs info{};
  return ::statfs(path, &info) == 0 && static_cast<std::int64_t>(info.f_type) == magic;
}

// The marker alone says little: a virtual machine that was made from a container's image has it
// too.
Container read_container(const Hints& hints) {
  if (!hints.is_filtered && !hints.proc_is_masked && !is_on("/", OVERLAYFS_SUPER_MAGIC)) {
    return Container::None;
  }
  if (exists("/run/.containerenv")) return Container::Podman;
  return exists("/.dockerenv") ? Container::Docker : Container::None;
}

CgroupVersion read_mounted() {
  if (is_on("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)) return CgroupVersion::V2;
  return exists("/sys/fs/cgroup/memory") || exists("/sys/fs/cgroup/pids") ? CgroupVersion::V1
                                                                          : CgroupVersion::None;
}

// The fifth word of each line is where the mount is (proc_pid_mountinfo(5)).
void read_mounts(Hints& hints) {
  const auto text = read_file("/proc/self/mountinfo", 4U << 20U);
  if (!text) return;
  hints.is_chrooted = true;
  std::string_view rest = *text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    for (int word = 0; word < 4; ++word) {
      line.remove_prefix(std::min(line.size(), line.find(' ') + 1));
    }
    const std::string_view place = line.substr(0, line.find(' '));
    if (place == "/") hints.is_chrooted = false;
    // Distributions mount binfmt_misc there, over a directory that is empty for this purpose.
    if (place.starts_with("/proc/") && place != "/proc/sys/fs/binfmt_misc") {
      hints.proc_is_masked = true;
    }
  }
}

bool read_filtered() {
  const auto status = read_file("/proc/self/status");
  return status && status->find("\nSeccomp:\t2") != std::string::npos;
}

// The initial namespace maps every id to itself (user_namespaces(7)).
bool read_in_user_namespace() {
  const auto map = read_file("/proc/self/uid_map");
  return map && map->find(" 4294967295\n") == std::string::npos;
}

// A path goes into a command line only when the shell takes it as it is.
bool is_plain(std::string_view path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+";
  return !path.empty() && path.find_first_not_of(kPlain) == std::string_view::npos;
}

std::string container_line(const Hints& hints) {
  if (hints.container == Container::Podman) {
    return "start the container with: podman run --security-opt seccomp=unconfined --security-opt "
           "unmask=ALL --security-opt label=disable ...";
  }
  return "start the container with: docker run --user 1000:1000 --security-opt seccomp=unconfined "
         "--security-opt apparmor=unconfined --security-opt systempaths=unconfined ...";
}

std::string apparmor_lines(const Hints& hints) {
  return fmt::format(
      "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0   (to keep it: echo "
      "'kernel.apparmor_restrict_unprivileged_userns=0' | sudo tee -a "
      "/etc/sysctl.d/60-glovebox.conf)\nfor this program alone: printf 'abi <abi/4.0>,\\ninclude "
      "<tunables/global>\\nprofile glovebox {} flags=(unconfined) {{\\n  userns,\\n}}\\n' | sudo "
      "tee /etc/apparmor.d/glovebox && sudo apparmor_parser -r /etc/apparmor.d/glovebox",
      hints.program);
}

std::string sysctl_line(std::string_view setting) {
  return fmt::format(
      "sudo sysctl -w {0}   (to keep it: echo '{0}' | sudo tee -a /etc/sysctl.d/60-glovebox.conf)",
      setting);
}

constexpr const char* kSelinux =
    "SELinux enforces: sudo ausearch -m AVC -ts recent | audit2allow -M glovebox && sudo semodule "
    "-i glovebox.pp";

std::string filtered_line() {
  return "a seccomp filter is on this process already: start glovebox from a shell without one (a "
         "service's SystemCallFilter=, a snap, a container, another sandbox)";
}

std::string kernel_line(std::string_view since) {
  return fmt::format("install a kernel of Linux {} or newer, with this feature built in", since);
}

constexpr const char* kChroot =
    "glovebox runs in a chroot, where the kernel makes no user namespaces: enter the tree with "
    "pivot_root or systemd-nspawn instead";

constexpr const char* kLesserRoot =
    "this root is root of a user namespace alone, without the ids that boxes of root need: run "
    "glovebox outside it, or in it as an ordinary user (podman run --user 1000 ...)";

std::string last_resort(const Hints& hints) {
  if (hints.tier == Tier::Root && hints.in_user_namespace) return kLesserRoot;
  if (hints.tier == Tier::Root) {
    return "run glovebox with all of root's capabilities (in a container: --privileged), or as an "
           "ordinary user";
  }
  return "a security policy of this host refuses it: have its administrator allow it "
         "to this user, or run glovebox as root";
}

// For what is refused (EPERM, EACCES, ENOSPC) on the way to a user namespace or private mounts.
// Several of these can hold at once, and then each must be fixed.
std::string namespace_lines(int os_errno, const Hints& hints) {
  const bool user = hints.tier == Tier::User;
  std::vector<std::string> lines;
  if (hints.max_user_namespaces == 0) {
    lines.push_back(sysctl_line("user.max_user_namespaces=15000"));
  } else if (os_errno == ENOSPC || os_errno == EUSERS) {
    lines.push_back(sysctl_line("user.max_user_namespaces=60000"));
  }
  if (user && hints.userns_clone == 0) {
    lines.push_back(sysctl_line("kernel.unprivileged_userns_clone=1"));
  }
  if (hints.container != Container::None) lines.push_back(container_line(hints));
  if (user && hints.apparmor_restrict.value_or(0) != 0) lines.push_back(apparmor_lines(hints));
  if (hints.is_chrooted) lines.emplace_back(kChroot);
  if (lines.empty() && hints.is_filtered) lines.push_back(filtered_line());
  if (lines.empty() && hints.selinux_enforces) lines.emplace_back(kSelinux);
  if (lines.empty()) lines.push_back(last_resort(hints));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string call_lines(int os_errno, std::string_view since, const Hints& hints) {
  if (os_errno == EDQUOT) return sysctl_line("kernel.keys.maxkeys=2000");
  if (hints.container != Container::None) return container_line(hints);
  if (hints.is_filtered) return filtered_line();
  const bool refused = os_errno == EPERM || os_errno == EACCES;
  if (hints.selinux_enforces && refused) return kSelinux;
  return refused ? last_resort(hints) : kernel_line(since);
}

std::string proc_lines(int os_errno, const Hints& hints) {
  if (hints.proc_is_masked && hints.container == Container::None) {
    return "something is mounted below /proc, so the kernel gives no fresh one: docker run "
           "--security-opt systempaths=unconfined, podman run --security-opt unmask=ALL, or in "
           "Kubernetes securityContext.procMount: Unmasked";
  }
  return namespace_lines(os_errno, hints);
}

std::string landlock_lines(int os_errno, std::string_view since, const Hints& hints) {
  const std::string waiver =
      "\nor go without this second wall, run by run: glovebox run --waive landlock ...";
  if (os_errno == EOPNOTSUPP) {
    const std::string modules = hints.security_modules.empty() ? "lockdown,yama,integrity,apparmor"
                                                               : hints.security_modules;
    return fmt::format(
        "boot with lsm=landlock,{0}: sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&lsm=landlock,{0} /' "
        "/etc/default/grub && sudo update-grub && sudo reboot{1}",
        modules, waiver);
  }
  return call_lines(os_errno, since, hints) + waiver;
}

constexpr const char* kDelegateCpu =
    "sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu cpuset "
    "io memory pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo "
    "systemctl daemon-reload   (then log in again)";

std::string user_cgroup_lines(Lack lack, const Hints& hints) {
  if (hints.mounted == CgroupVersion::V1) {
    return "an administrator hands over a cgroup and puts this shell into it: for c in memory "
           "pids cpu cpuacct; do sudo mkdir -p /sys/fs/cgroup/$c/$USER && sudo chown -R $USER "
           "/sys/fs/cgroup/$c/$USER && echo $$ | sudo tee /sys/fs/cgroup/$c/$USER/tasks; done";
  }
  if (!hints.has_systemd) {
    return "an administrator hands over a cgroup and puts this shell into it: sudo mkdir -p "
           "/sys/fs/cgroup/$USER/shell && echo '+memory +pids +cpu' | sudo tee "
           "/sys/fs/cgroup/cgroup.subtree_control /sys/fs/cgroup/$USER/cgroup.subtree_control && "
           "sudo chown -R $USER /sys/fs/cgroup/$USER && echo $$ | sudo tee "
           "/sys/fs/cgroup/$USER/shell/cgroup.procs";
  }
  return fmt::format(
      "systemd-run --user --scope -p Delegate=yes {} run ...   (without a login session, first: "
      "sudo loginctl enable-linger $USER)\n{}{}",
      hints.program, lack == Lack::CgroupCpu ? "and: " : "if that does not help: ", kDelegateCpu);
}

std::string cgroup_lines(Lack lack, int os_errno, const Hints& hints) {
  if (hints.mounted == CgroupVersion::None) {
    return "sudo mount -t cgroup2 cgroup2 /sys/fs/cgroup && echo '+memory +pids +cpu' | sudo tee "
           "/sys/fs/cgroup/cgroup.subtree_control";
  }
  if (hints.container != Container::None || os_errno == EROFS) {
    return "start the container with a cgroup tree that it may write: docker run --privileged "
           "--cgroupns=private ..., or podman run --cgroups=split --security-opt unmask=ALL ...";
  }
  if (hints.tier == Tier::User) return user_cgroup_lines(lack, hints);
  if (hints.mounted == CgroupVersion::V1) {
    return "mount the controller's hierarchy: sudo mkdir -p /sys/fs/cgroup/NAME && sudo mount -t "
           "cgroup -o NAME cgroup /sys/fs/cgroup/NAME   (NAME: memory, pids, cpu or cpuacct)";
  }
  return "echo '+memory +pids +cpu' | sudo tee /sys/fs/cgroup/cgroup.subtree_control   (below a "
         "systemd slice: systemd-run --scope -p Delegate=yes ...)";
}

std::string swap_lines(const Hints& hints) {
  if (hints.mounted == CgroupVersion::V2) {
    return "boot a kernel with swap accounting (CONFIG_MEMCG with CONFIG_SWAP), without "
           "swapaccount=0";
  }
  return "boot with swapaccount=1: sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&swapaccount=1 /' "
         "/etc/default/grub && sudo update-grub && sudo reboot";
}

std::string kvm_lines(int os_errno, const Hints& hints) {
  if (hints.container != Container::None) return "start the container with: --device /dev/kvm";
  if (os_errno == EACCES || os_errno == EPERM) {
    return "sudo usermod -aG kvm $USER   (then log in again)";
  }
  return "sudo modprobe kvm_intel || sudo modprobe kvm_amd   (first turn on virtualization in the "
         "firmware; in a virtual machine, nested virtualization on its host)";
}

std::string box_uid_lines(int os_errno, const Hints& hints) {
  if (os_errno != EINVAL) return last_resort(hints);
  return fmt::format(
      "GLOVEBOX_UID_RANGE=FIRST-COUNT {} run ...   (a range of uids that exists in this "
      "container; see /proc/self/uid_map)\nor run glovebox as an ordinary user",
      hints.program);
}

}  // namespace

Hints read_hints(Tier tier, std::string program) {
  Hints hints;
  hints.tier = tier;
  if (is_plain(program)) hints.program = std::move(program);
  hints.apparmor_restrict = read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
  hints.userns_clone = read_number("/proc/sys/kernel/unprivileged_userns_clone");
  hints.max_user_namespaces = read_number("/proc/sys/user/max_user_namespaces");
  hints.in_user_namespace = read_in_user_namespace();
  hints.is_filtered = read_filtered();
  read_mounts(hints);
  hints.container = read_container(hints);
  hints.selinux_enforces = read_number("/sys/fs/selinux/enforce") == 1;
  hints.has_systemd = exists("/run/systemd/system");
  hints.mounted = read_mounted();
  if (auto modules = read_file("/sys/kernel/security/lsm", 4096)) {
    hints.security_modules = modules->substr(0, modules->find('\n'));
  }
  return hints;
}

std::string remedy(Lack lack, int os_errno, std::string_view since, const Hints& hints) {
  switch (lack) {
    case Lack::Facts:
      return "run glovebox as an ordinary user, or as root with CAP_SYS_ADMIN, CAP_SETUID and "
             "CAP_SETGID (docker run --cap-add SYS_ADMIN ...)";
    case Lack::BoxUid: return box_uid_lines(os_errno, hints);
    case Lack::UidLease:
      return "make /run writable for root: sudo mount -t tmpfs -o mode=0755 tmpfs /run   (or give "
             "/run/glovebox to root: sudo chown root: /run/glovebox && sudo chmod 0700 "
             "/run/glovebox)";
    case Lack::SystemCall:
    case Lack::Notification: return call_lines(os_errno, since, hints);
    case Lack::UserNamespace:
    case Lack::Mounts:
      if (os_errno == ENOSYS || os_errno == EINVAL) return call_lines(os_errno, since, hints);
      return namespace_lines(os_errno, hints);
    case Lack::Proc:
      if (os_errno == ENOSYS) return call_lines(os_errno, since, hints);
      return proc_lines(os_errno, hints);
    case Lack::Overlay:
      if (os_errno == ENODEV) return "sudo modprobe overlay";
      if (os_errno == ENOSYS || os_errno == EINVAL) return call_lines(os_errno, since, hints);
      return namespace_lines(os_errno, hints);
    case Lack::Idmap:
      if (os_errno != EINVAL) return call_lines(os_errno, since, hints);
      return "run glovebox as the owner of the directory instead of root, or keep the workspace "
             "on ext4, xfs, btrfs or tmpfs";
    case Lack::Landlock: return landlock_lines(os_errno, since, hints);
    case Lack::Cgroup:
    case Lack::CgroupCpu: return cgroup_lines(lack, os_errno, hints);
    case Lack::Swap: return swap_lines(hints);
    case Lack::Kvm: return kvm_lines(os_errno, hints);
  }
  return "";
}

}  // namespace glovebox::host::probe
