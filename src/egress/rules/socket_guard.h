// Which Unix sockets a box may connect to that is shown directories of the host.
//
// A socket is the box's to connect to when it is found on one of the box's own file systems or on a
// mount that `unix=` granted, or when the box made it. All other sockets are the host's, whatever
// their names and modes are.
//
// What an attacker would like: a socket of the host that is taken for one of these. So a socket is
// judged by the descriptor through which it is then connected to, never by its name:
//   - the mount that it was found on. The box can mount nothing, and neither link nor rename works
//     from one mount to another;
//   - or its inode, among those that the box listened at. The kernel is asked which inode that is
//     (SIOCUNIXFILE), and it is kept open, so that its number is not given to another file.
#pragma once

#include "base/unique_fd.h"
#include "plan/network_plan.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace glovebox::egress {

// The sockets that the guards of all boxes keep open: the process has only so many descriptors.
struct KeptSockets {
  std::size_t most = 0;
  std::size_t count = 0;
};

class SocketGuard {
 public:
  // In directories of the host, at a time. Each keeps a descriptor, and a box has at most as many
  // as it leaves to the others (leaves_enough in egress_rules.h).
  static constexpr std::size_t kMostOwn = 128;

  SocketGuard(const plan::NetworkPlan& plan, KeptSockets& kept)
      : places_(plan.socket_places), moved_(plan.moved), kept_(kept) {}
  SocketGuard(const SocketGuard&) = delete;
  SocketGuard& operator=(const SocketGuard&) = delete;
  ~SocketGuard() { kept_.count -= own_.size(); }

  // Finds the mounts of the places in the tree of a box, whose root that is.
  void learn(BorrowedFd root);
  // `found` was opened with O_PATH.
  bool may_connect(BorrowedFd found) const;
  // A socket of the box's is about to listen. An errno, or 0.
  int add_own(BorrowedFd socket);

  // The path that `unix=` would have to name for a socket of the host that was found.
  std::string path_outside(BorrowedFd found) const;

 private:
  using Inode = std::pair<dev_t, ino_t>;

  bool has_room() const;
  void forget_removed();

  std::vector<std::string> places_;
  std::vector<plan::MovedTree> moved_;
  std::set<std::uint64_t> mounts_;  // by the kernel's number
  KeptSockets& kept_;
  std::map<Inode, UniqueFd> own_;
};

}  // namespace glovebox::egress
