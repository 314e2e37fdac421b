// The launcher as a process of its own: small, single-threaded, started before its client has
// grown, so that what a start costs does not grow with the client.
//
// It serves one client over one socket (launcher_protocol.h) and ends when the client closes it;
// its boxes end with it. The client gets the status socket of each box and talks to the box's init
// directly; the launcher keeps what needs its privileges: the cgroups, their limits, the uids.
#pragma once

#include "base/epoll.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "launch/launcher.h"
#include "launch/supervise.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace glovebox::launch {

class LauncherServer {
 public:
  LauncherServer(Launcher launcher, UniqueFd client);
  LauncherServer(const LauncherServer&) = delete;
  LauncherServer& operator=(const LauncherServer&) = delete;
  ~LauncherServer();  // ends the boxes that are left, and waits for them

  // Serves until the client is gone.
  Result<void> run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    Box box;
    std::uint32_t limit = 0;     // LimitKind + 1
    Clock::time_point next_cpu;  // when its CPU time is looked at next, if it has a limit
  };

  enum class Served : std::uint8_t { Nothing, Something, Gone };
  Result<Served> serve_ready(int timeout_ms);
  Result<bool> serve_request();
  Result<Box> start(const struct PacketView& packet, std::uint64_t& id);
  Result<Box> start_decoded(std::span<const std::byte> bytes, const StartFiles& files);
  void add_counts(struct ReplyPacket& reply) const;
  Result<void> watch_new_boxes();
  Result<void> watch_box(std::uint64_t id);
  void check_limits(Running& running);
  void check_cpu(Running& running);
  void end_by(Running& running, LimitKind limit);
  // Looks at the boxes whose turn it is; returns how long until the next one's, -1 for never.
  int check_due_limits();
  void end_box(std::uint64_t id);
  Result<void> reply_failed(std::uint64_t id, const Error& error);

  Launcher launcher_;
  UniqueFd client_;
  Epoll ready_;
  std::vector<std::uint64_t> request_;  // the last one, at an alignment for plans
  std::map<std::uint64_t, Running> running_;
  std::vector<std::uint64_t> unwatched_;
  Clock::time_point next_check_;
};

}  // namespace glovebox::launch
