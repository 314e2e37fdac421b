#include "egress/kernel/as_user.h"

#include "base/file.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::egress {
namespace {

constexpr auto kUnchanged = static_cast<unsigned>(-1);

// The kernel's own calls: those of the C library change every thread of the process.
bool set_effective_uid(uid_t uid) {
  return ::syscall(SYS_setresuid, kUnchanged, uid, kUnchanged) == 0;
}
bool set_effective_gid(gid_t gid) {
  return ::syscall(SYS_setresgid, kUnchanged, gid, kUnchanged) == 0;
}
bool set_groups(const std::vector<gid_t>& groups) {
  return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

bool get_capabilities(CapabilitySets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(SYS_capget, &header, sets.data()) == 0;
}
bool set_capabilities(const CapabilitySets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(SYS_capset, &header, sets.data()) == 0;
}

// They go with root's user as a rule, but not from a launcher, which has them stay through all
// changes of its user (SECBIT_NO_SETUID_FIXUP), and `glovebox run` is launcher and broker in one.
// What the kernel says afterwards counts: the buffer is set to what would be refused.
bool drop_effective(CapabilitySets sets) {
  for (__user_cap_data_struct& set : sets) set.effective = 0;
  if (!set_capabilities(sets)) return false;
  for (__user_cap_data_struct& set : sets) set.effective = ~0U;
  if (!get_capabilities(sets)) return false;
  return std::ranges::all_of(sets, [](const auto& set) { return set.effective == 0; });
}

// The second number of a line "Uid:\t1\t2\t3\t4": the effective one.
std::optional<unsigned> effective_id(const std::string& status, std::string_view field) {
  const std::size_t at = status.find(field);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t second = status.find('\t', at + field.size());
  if (second == std::string::npos) return std::nullopt;
  return static_cast<unsigned>(std::strtoul(status.c_str() + second + 1, nullptr, 10));
}

}  // namespace

std::optional<UserIds> user_of(pid_t thread) {
  const auto status = read_file(fmt::format("/proc/{}/status", thread));
  if (!status) return std::nullopt;
  const auto uid = effective_id(*status, "\nUid:\t");
  const auto gid = effective_id(*status, "\nGid:\t");
  if (!uid || !gid) return std::nullopt;
  return UserIds{*uid, *gid};
}

AsUser::AsUser(UserIds ids) : before_{::geteuid(), ::getegid()} {
  if (ids == before_) {
    in_force_ = true;
    return;
  }
  // A change of ids takes the signal away that comes with the parent's death.
  parent_ = ::getppid();
  (void)::prctl(PR_GET_PDEATHSIG, &death_signal_, 0, 0, 0);  // cannot fail
  if (!get_capabilities(capabilities_)) return;
  groups_.resize(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups_.size()), groups_.data());
  if (count < 0) return;
  groups_.resize(static_cast<std::size_t>(count));
  is_changed_ = true;
  in_force_ = enter(ids);
}

AsUser::~AsUser() {
  if (is_changed_) leave();
}

// The user and the capabilities last: with them goes the right to change the others.
bool AsUser::enter(UserIds ids) {
  return set_groups({}) && set_effective_gid(ids.gid) && set_effective_uid(ids.uid) &&
         drop_effective(capabilities_);
}

// A broker that stayed the box's user would serve the others as that one. The capabilities are
// needed for the changes, which change them in turn.
void AsUser::leave() {
  const bool restored = set_capabilities(capabilities_) && set_effective_uid(before_.uid) &&
                        set_effective_gid(before_.gid) && set_groups(groups_) &&
                        set_capabilities(capabilities_);
  if (!restored) std::abort();
  if (death_signal_ == 0) return;
  (void)::prctl(PR_SET_PDEATHSIG, death_signal_, 0, 0, 0);  // it was set before
  if (::getppid() != parent_) (void)std::raise(death_signal_);
}

}  // namespace glovebox::egress
