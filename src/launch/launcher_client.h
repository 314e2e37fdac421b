// The other side of a launcher process.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "launch/parked.h"
#include "launch/supervise.h"
#include "plan/launch_plan.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace glovebox::launch {

// A box started by a launcher process. The status socket speaks message.h.
struct RemoteBox {
  std::uint64_t id = 0;
  UniqueFd status;
  UniqueFd init;  // pidfd
  bool was_parked = false;
  std::string cgroup{};  // its name; empty without one
};

// What the launcher says when nothing of a box is left.
struct RemoteEnd {
  std::optional<LimitKind> limit;
  std::optional<std::uint64_t> cpu_ns;
  std::optional<std::uint64_t> peak_memory_bytes;
};

// News of boxes, for a client that waits for many at once.
struct BoxStarted {
  std::uint64_t id = 0;
  UniqueFd init;            // pidfd
  bool was_parked = false;  // it was begun before it was asked for
  std::string cgroup{};
};
struct BoxFailed {
  std::uint64_t id = 0;
  Error error;
};
struct BoxEnded {
  std::uint64_t id = 0;
  RemoteEnd end;
};
using BoxNews = std::variant<BoxStarted, BoxFailed, BoxEnded>;

// Owns a launcher process: it ends, and its boxes with it, when this is destroyed.
class LauncherClient {
 public:
  // Executes `program` (glovebox-launcher).
  static Result<LauncherClient> start(const std::string& program);

  LauncherClient(LauncherClient&&) = default;
  LauncherClient& operator=(LauncherClient&&) = default;
  ~LauncherClient();

  // Starts a box with these standard streams; -1 stands for the box's own terminal. Up to
  // `keep_parked` boxes like it are then begun ahead, for who asks next (parked.h).
  Result<RemoteBox> start_box(const plan::LaunchPlan& plan, const std::array<int, 3>& stdio,
                              std::uint32_t keep_parked = 0);

  // Waits until the launcher has put everything of that box away.
  Result<RemoteEnd> await_end(std::uint64_t id);

  // The same in halves, for an event loop. ask_for_box() returns at once, with a box that has no
  // `init` yet; when fd() is readable, receive_news() tells of one box that has started, could not
  // be started, or has ended. A client uses either these or the calls above. An error means that
  // the launcher is gone.
  Result<RemoteBox> ask_for_box(const plan::LaunchPlan& plan, const std::array<int, 3>& stdio,
                                std::uint32_t keep_parked = 0);
  Result<BoxNews> receive_news();
  BorrowedFd fd() const { return socket_; }

  pid_t pid() const { return pid_; }
  // As of the launcher's last news.
  ParkedCounts parked() const { return parked_; }

 private:
  LauncherClient(UniqueFd socket, UniqueFd process, pid_t pid)
      : socket_(std::move(socket)), process_(std::move(process)), pid_(pid) {}
  Result<void> send_start(const plan::LaunchPlan& plan, const std::array<int, 3>& stdio, int status,
                          std::uint64_t id, std::uint32_t keep_parked);

  UniqueFd socket_;
  UniqueFd process_;
  pid_t pid_ = 0;
  std::uint64_t next_id_ = 0;
  ParkedCounts parked_;
  std::map<std::uint64_t, RemoteEnd> ended_;  // ends that arrived while waiting for something else
};

}  // namespace glovebox::launch
