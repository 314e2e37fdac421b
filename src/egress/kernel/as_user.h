// Calls on Unix sockets that the broker makes as the box's user.
//
// A server is told which user connected (SO_PEERCRED), and the kernel asks whether that
// user may write to the socket. A broker of root's would be let in everywhere, and be taken for
// root.
#pragma once

#include "base/unique_fd.h"

#include <array>
#include <optional>
#include <vector>

#include <linux/capability.h>
#include <sys/types.h>

namespace glovebox::egress {

struct UserIds {
  uid_t uid = 0;
  gid_t gid = 0;
  friend bool operator==(const UserIds&, const UserIds&) = default;
};

// Those of a thread, as they are outside of its user namespace. Nothing: it is gone.
std::optional<UserIds> user_of(pid_t thread);

using CapabilitySets = std::array<__user_cap_data_struct, 2>;  // 64 of them, in two words

// The calling thread is that user while this lives, and no other thread of the process is. It has
// the right to write to nothing but what that user has, no groups and no capability in force. It
// does nothing where the broker is that user already.
//
// Safe because the box can neither signal nor trace this thread meanwhile: the real and the saved
// user stay root's, and its processes cannot name ours. Provided that nothing but the one call is
// made meanwhile.
class AsUser {
 public:
  explicit AsUser(UserIds ids);
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser();

  // False: it could not be done, and the call must not be made.
  bool is_in_force() const { return in_force_; }

 private:
  bool enter(UserIds ids);
  void leave();

  bool in_force_ = false;
  bool is_changed_ = false;
  UserIds before_;
  std::vector<gid_t> groups_;
  CapabilitySets capabilities_{};
  int death_signal_ = 0;
  pid_t parent_ = 0;
};

}  // namespace glovebox::egress
