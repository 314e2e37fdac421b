// The launcher process, on the event loop.
//
// Requests for boxes go out a few at a time, so that the loop never waits for a full socket, and
// the launcher's news come in as callbacks. A launcher that dies takes its boxes along; the next
// request for a box starts another. The loop's thread only, and the launcher dies with that thread.
#pragma once

#include "async/event.h"
#include "async/semaphore.h"
#include "launch/launcher_client.h"
#include "session/manager/pool_stats.h"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace glovebox::session {

class LauncherConnection {
 public:
  // Both are called on the loop.
  struct Callbacks {
    // Nothing of that box is left.
    std::function<void(std::uint64_t box, const launch::RemoteEnd&)> on_box_ended;
    // The launcher is gone, and these boxes with it.
    std::function<void(const std::vector<std::uint64_t>& boxes)> on_gone;
  };

  // Up to `keep_parked` boxes of each shape are begun ahead of need (launch/parked.h).
  LauncherConnection(asio::io_context& loop, std::string program, std::uint32_t keep_parked,
                     Callbacks callbacks);
  LauncherConnection(const LauncherConnection&) = delete;
  LauncherConnection& operator=(const LauncherConnection&) = delete;
  ~LauncherConnection();

  // Starts the process, if it does not run.
  Result<void> start();
  std::uint64_t restarts() const { return starts_ > 0 ? starts_ - 1 : 0; }
  pid_t pid() const { return client_ ? client_->pid() : -1; }
  PoolStats pool_stats() const;

  // The box is on its way when this returns: its own steps have yet to say that they are done. The
  // id is unique over all launchers. A box whose request is cancelled is killed when it comes.
  asio::awaitable<Result<launch::RemoteBox>> start_box(
      std::shared_ptr<const plan::LaunchPlan> plan);
  // Whether its end has yet to be reported: it may come between a start and who waits for it.
  bool is_running(std::uint64_t box) const;

 private:
  struct Pending {
    explicit Pending(asio::io_context& loop) : wakeup(loop) {}
    Wakeup wakeup;
    bool is_answered = false;
    UniqueFd init;
    std::string cgroup;
    std::optional<Error> problem;
  };

  void watch();
  void on_news();
  void take(launch::BoxStarted& started);
  void take(launch::BoxFailed& failed);
  void take(launch::BoxEnded& ended);
  void lose();
  // Ids of one launcher begin at 1 again; with the number of the launcher they are unique.
  std::uint64_t global(std::uint64_t id) const { return (starts_ << 40U) | id; }

  asio::io_context& loop_;
  std::string program_;
  std::uint32_t keep_parked_;
  PoolStats pool_stats_;  // without what the present launcher counts itself
  Callbacks callbacks_;
  std::optional<launch::LauncherClient> client_;
  std::optional<asio::posix::stream_descriptor> line_;  // the client's socket, not owned
  UniqueFd null_;
  std::uint64_t starts_ = 0;
  std::shared_ptr<Semaphore> turns_;
  std::map<std::uint64_t, std::shared_ptr<Pending>> pending_;  // by the launcher's own id
  std::map<std::uint64_t, bool> running_;                      // the same; those that have started
  std::shared_ptr<bool> is_there_ = std::make_shared<bool>(true);
};

}  // namespace glovebox::session
