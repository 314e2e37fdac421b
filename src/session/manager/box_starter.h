// Makes boxes of what was prepared, and knows each until nothing of it is left.
//
// It owns the launcher process and the network of the boxes. What a box tells later goes to the
// callbacks, by the id of its session; a box may outlive this, and then tells no one. The loop's
// thread only.
#pragma once

#include "session/box/box_networks.h"
#include "session/box/running_box.h"
#include "session/manager/launcher_connection.h"
#include "session/manager/manager_common.h"
#include "session/manager/started_box.h"

#include <boost/asio/thread_pool.hpp>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace glovebox::session {

// Called on the loop, with the id of the session that the box is of.
struct BoxCallbacks {
  std::function<void(const std::string& id, const SessionEnd& end)> on_end;
  std::function<void(const std::string& id, const RunRecord& run)> on_run;
  std::function<void(const std::string& id, const egress::Denied&, std::uint64_t times)> on_denied;
};

class BoxStarter {
 public:
  BoxStarter(ManagerCommon& common, BoxCallbacks callbacks);
  BoxStarter(const BoxStarter&) = delete;
  BoxStarter& operator=(const BoxStarter&) = delete;
  ~BoxStarter();

  // Starts the launcher, and the broker when the settings name servers for it.
  Result<void> open();
  std::uint64_t launcher_restarts() const { return launcher_.restarts(); }
  PoolStats pool_stats() const { return launcher_.pool_stats(); }

  // A box whose agent is there, which has shown what it is if that is asked for, and whose shell is
  // where `origin` has it.
  asio::awaitable<Result<StartedBox>> start_box(std::shared_ptr<Prepared> prepared,
                                                const SessionOrigin& origin);
  // The same with a Python interpreter that is ready.
  asio::awaitable<Result<StartedBox>> start_interpreter(std::shared_ptr<Prepared> prepared,
                                                        const SessionOrigin& origin);
  // Ends a box that will be no session, and then removes its layers. `started` may be empty.
  asio::awaitable<void> discard_box(std::shared_ptr<Prepared> prepared, StartedBox started);
  // Whether the launcher said in time that nothing of the box is left.
  asio::awaitable<bool> await_gone(std::shared_ptr<BoxSession> live);

 private:
  BoxSettings box_settings(const Prepared& prepared, const SessionOrigin& origin,
                           const std::shared_ptr<const std::string>& whose);
  // `live` is the box as soon as it is there.
  Result<std::unique_ptr<BoxNetwork>> add_network(const plan::NetworkPlan& plan,
                                                  const std::shared_ptr<const std::string>& whose,
                                                  std::shared_ptr<std::weak_ptr<BoxSession>> live);
  void watch_box(StartedBox& started, std::uint64_t box);
  // Waits for the agent, and does what the request and the origin ask for.
  asio::awaitable<Result<void>> begin(StartedBox& started, const Prepared& prepared,
                                      const SessionOrigin& origin);
  std::shared_ptr<RunningBox> take_running(std::uint64_t box);
  void on_box_ended(std::uint64_t box, const launch::RemoteEnd& end);
  void on_launcher_gone(const std::vector<std::uint64_t>& boxes);

  ManagerCommon& common_;
  std::shared_ptr<BoxCallbacks> callbacks_;  // boxes have it weakly
  asio::thread_pool message_pool_{
      1};  // reading a long message of a Python session holds up no more
  BoxNetworks networks_;
  LauncherConnection launcher_;
  std::unordered_map<std::uint64_t, std::shared_ptr<RunningBox>> boxes_;
};

}  // namespace glovebox::session
