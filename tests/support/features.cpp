#include "support/features.h"

#include "base/unique_fd.h"

#include <array>
#include <fstream>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

// Reasons that hold on the machine that runs our CI. Keep it short: every line is a test that
// is not run.
constexpr std::array<std::string_view, 2> kExpectedSkips{kRootTierOnly, kUserTierOnly};

bool child_succeeds(int (*act)()) {
  const pid_t child = fork();
  if (child == 0) _exit(act() == 0 ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int make_user_namespace() { return unshare(CLONE_NEWUSER); }

long landlock_abi() { return syscall(444 /*landlock_create_ruleset*/, nullptr, 0, 1U); }

// Version 1 has a hierarchy for each controller; version 2 has one for all, which says what it
// passes on, and counts CPU time with or without a controller.
bool controller_is_ours(const std::string& name) {
  const std::string first_version = "/sys/fs/cgroup/" + name + "/cgroup.procs";
  if (access(first_version.c_str(), W_OK) == 0) return true;
  if (access("/sys/fs/cgroup/cgroup.procs", W_OK) != 0) return false;
  std::ifstream file("/sys/fs/cgroup/cgroup.subtree_control");
  for (std::string passed_on; file >> passed_on;) {
    if (passed_on == name || name == "cpuacct") return true;
  }
  return false;
}

bool has_ipv6_loopback() {
  const UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return fd && bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::optional<std::string> unless(bool present, const char* reason) {
  if (present) return std::nullopt;
  return reason;
}

}  // namespace

std::optional<std::string> why_missing(Feature feature) {
  switch (feature) {
    case Feature::Root: return unless(geteuid() == 0, "the tests do not run as root");
    case Feature::UserNamespaces:
      return unless(child_succeeds(make_user_namespace), "no user namespaces here");
    case Feature::MemoryCgroup:
      return unless(controller_is_ours("memory"), "no memory cgroup controller here");
    case Feature::PidsCgroup:
      return unless(controller_is_ours("pids"), "no pids cgroup controller here");
    case Feature::CpuCgroup: return unless(controller_is_ours("cpu"), "no cpu controller here");
    case Feature::CpuAccounting:
      return unless(controller_is_ours("cpuacct"), "no cpu accounting here");
    case Feature::Landlock: return unless(landlock_abi() >= 1, "no Landlock here");
    case Feature::LandlockTcp: return unless(landlock_abi() >= 4, "no Landlock for TCP here");
    case Feature::Ipv6Loopback: return unless(has_ipv6_loopback(), "no IPv6 loopback here");
  }
  return "unknown feature";
}

bool is_expected_skip(const std::string& reason) {
  for (const std::string_view expected : kExpectedSkips) {
    if (reason.find(expected) != std::string::npos) return true;
  }
  return false;
}

}  // namespace glovebox::test
