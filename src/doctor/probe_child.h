// A trial in a child process, and the few bytes in which the child says how it went.
//
// The child is a fork of a single-threaded process, so it may allocate. It may also end in any way:
// by a filter that kills it, by hanging, by a half-written answer. All of these are "missing", none
// of them harms the parent, and nothing that the child started outlives the call.
#pragma once

#include "base/result.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::host::probe {

// What went wrong, as far as it decides the remedy.
enum class Cause : std::uint32_t {
  Itself,          // the feature that was tried
  UserNamespace,   // the namespaces below it could not be made
  MountNamespace,  // nor the private mounts below it
  Cgroup,          // nor the cgroup below it
};
inline constexpr std::uint32_t kLastCause = static_cast<std::uint32_t>(Cause::Cgroup);

enum class Outcome : std::uint32_t { Ok, Failed, NotApplicable };
inline constexpr std::uint32_t kLastOutcome = static_cast<std::uint32_t>(Outcome::NotApplicable);

// How a trial went. Travels through a pipe as it is: fixed size, no pointers.
struct Reply {
  static constexpr std::uint32_t kMagic = 0x676c7631;  // "glv1"

  std::uint32_t magic = kMagic;
  Outcome outcome = Outcome::Failed;
  Cause cause = Cause::Itself;
  std::int32_t os_errno = 0;     // 0 when the failure is no error of a call
  std::array<char, 128> text{};  // Ok: what was seen. Failed: the act. Cut when longer.

  std::string_view view() const;
};

Reply seen(std::string_view what);
Reply not_applicable(std::string_view why);
// Takes errno.
Reply failed(std::string_view act, Cause cause = Cause::Itself);
Reply failed(std::string_view act, const Error& error);
// A call that went through and did not do what it says.
Reply wrong(std::string_view what, Cause cause = Cause::Itself);

using Body = std::function<Reply()>;

// Runs `body` in a forked child and returns its reply, or why there is none.
Reply run_trial(const Body& body, std::chrono::milliseconds timeout);

// For use inside a trial: runs `body` in a child made by clone3 with `flags` (CLONE_PIDFD is
// added). `in_parent`, if any, runs beside it and gets the child's pid. The child ends before this
// returns.
struct CloneRequest {
  std::uint64_t flags = 0;
  int cgroup = -1;  // with CLONE_INTO_CGROUP
  Cause cause = Cause::Itself;
  std::function<std::optional<Reply>(pid_t pid, int pidfd)> in_parent;
};
Reply in_clone(const CloneRequest& request, const Body& body);

}  // namespace glovebox::host::probe
