#include "session/manager/box_starter.h"

#include "async/co_try.h"
#include "async/on_pool.h"
#include "base/uuid.h"
#include "session/box/self_test.h"
#include "session/state/shell_state.h"

#include <boost/asio/steady_timer.hpp>

#include <utility>

namespace glovebox::session {
namespace {

constexpr const char* kShells[] = {"/bin/bash", "/usr/bin/bash", "/bin/sh"};

}  // namespace

BoxStarter::BoxStarter(ManagerCommon& common, BoxCallbacks callbacks)
    : common_(common),
      callbacks_(std::make_shared<BoxCallbacks>(std::move(callbacks))),
      networks_(common.loop, common.settings.name_servers),
      launcher_(
          common.loop, common.settings.launcher, common.settings.keep_parked,
          {[this](std::uint64_t box, const launch::RemoteEnd& end) { on_box_ended(box, end); },
           [this](const std::vector<std::uint64_t>& boxes) { on_launcher_gone(boxes); }}) {}

BoxStarter::~BoxStarter() { message_pool_.join(); }

Result<void> BoxStarter::open() {
  if (!common_.settings.name_servers.empty()) TRY_VOID(networks_.open());
  return launcher_.start();
}

BoxSettings BoxStarter::box_settings(const Prepared& prepared, const SessionOrigin& origin,
                                     const std::shared_ptr<const std::string>& whose) {
  BoxSettings settings;
  settings.hello.workspace = prepared.home;
  settings.hello.shells.assign(std::begin(kShells), std::end(kShells));
  settings.watch = prepared.plan.watch;
  settings.cgroup = prepared.plan.cgroup;
  settings.spool_directory = common_.spool_directory;
  settings.runs_before = origin.runs_before;
  if (origin.shell) {
    settings.env.emplace();
    for (const auto& [name, value] : origin.shell->env) {
      settings.env->push_back(fmt::format("{}={}", name, value));
    }
  }
  const std::weak_ptr<BoxCallbacks> weak = callbacks_;
  settings.on_end = [weak, whose](const SessionEnd& end) {
    if (const auto callbacks = weak.lock()) callbacks->on_end(*whose, end);
  };
  settings.on_run = [weak, whose](const RunRecord& run) {
    if (const auto callbacks = weak.lock()) callbacks->on_run(*whose, run);
  };
  return settings;
}

Result<std::unique_ptr<BoxNetwork>> BoxStarter::add_network(
    const plan::NetworkPlan& plan, const std::shared_ptr<const std::string>& whose,
    std::shared_ptr<std::weak_ptr<BoxSession>> live) {
  const auto denied = [weak = std::weak_ptr(callbacks_), whose](const egress::Denied& what,
                                                                std::uint64_t times) {
    if (const auto callbacks = weak.lock()) callbacks->on_denied(*whose, what, times);
  };
  const auto must_end = [live = std::move(live)](const std::string& why) {
    const auto box = live->lock();
    if (box) box->end_for(EndCause::Network, {}, fmt::format("the box was ended: {}", why));
  };
  return networks_.add(*whose, plan, denied, must_end);
}

void BoxStarter::watch_box(StartedBox& started, std::uint64_t box) {
  started.running = std::make_shared<RunningBox>();
  started.running->session = started.live;
  // One that ended while it was handed over is reported no more; that it is gone is told by its
  // line.
  if (launcher_.is_running(box)) {
    boxes_.emplace(box, started.running);
  } else {
    started.running->end();
  }
}

asio::awaitable<Result<void>> BoxStarter::begin(StartedBox& started, const Prepared& prepared,
                                                const SessionOrigin& origin) {
  CO_TRY_VOID(co_await started.live->begin(*started.plan, common_.settings.start_timeout));
  if (prepared.effective.prove) {
    auto proved = co_await run_self_test(*started.live, common_.settings.state_directory);
    if (!proved) {
      started.live->close(EndCause::Deleted, proved.error().message);
      co_return unexpected(std::move(proved).error());
    }
    started.proved = *std::move(proved);
  }
  if (origin.shell && !origin.shell->cwd.empty() && origin.shell->cwd != prepared.home) {
    co_await enter_directory(*started.live, origin.shell->cwd);
  }
  co_return Result<void>();
}

asio::awaitable<Result<StartedBox>> BoxStarter::start_box(std::shared_ptr<Prepared> prepared,
                                                          const SessionOrigin& origin) {
  StartedBox started;
  started.id = origin.id;
  if (started.id.empty()) {
    CO_TRY(started.id, make_uuid());
  }
  started.whose = std::make_shared<std::string>(started.id);
  BoxSettings settings = box_settings(*prepared, origin, started.whose);
  const auto live = std::make_shared<std::weak_ptr<BoxSession>>();
  if (prepared->plan.network) {
    CO_TRY(settings.network, add_network(*prepared->plan.network, started.whose, live));
  }
  started.plan = std::shared_ptr<const plan::LaunchPlan>(prepared, &prepared->plan);
  CO_TRY(launch::RemoteBox box, co_await launcher_.start_box(started.plan));
  const std::uint64_t box_id = box.id;
  started.live = std::make_shared<BoxSession>(common_.loop, std::move(box), std::move(settings));
  *live = started.live;
  watch_box(started, box_id);
  auto begun = co_await begin(started, *prepared, origin);
  if (begun) co_return started;
  (void)co_await await_gone(started.live);  // bounded; the layer is removed in any case
  co_return unexpected(std::move(begun).error());
}

asio::awaitable<Result<StartedBox>> BoxStarter::start_interpreter(
    std::shared_ptr<Prepared> prepared, const SessionOrigin& origin) {
  CO_TRY(StartedBox started, co_await start_box(prepared, origin));
  started.worker = std::make_shared<PythonWorker>(common_.loop, message_pool_, started.live);
  std::vector<std::string> command = python_command(*prepared->python);
  auto ready = co_await started.worker->start(std::move(command));
  if (ready) co_return started;
  started.live->close(EndCause::Deleted, "its interpreter did not start");
  (void)co_await await_gone(started.live);  // bounded
  co_return unexpected(std::move(ready).error());
}

// The layers go when the box has ended, which is work for the pool.
asio::awaitable<void> BoxStarter::discard_box(std::shared_ptr<Prepared> prepared,
                                              StartedBox started) {
  const bool is_cell = prepared->python && prepared->python->backend == Backend::Cell;
  if (is_cell && started.python) {
    started.python->close({"closed", "the session could not be written down"});
  } else if (started.live) {
    started.live->close(EndCause::Deleted, "the session could not be written down");
    (void)co_await await_gone(started.live);
  }
  auto layers = std::make_shared<std::vector<HeldLayer>>(std::exchange(prepared->layers, {}));
  const auto work = [layers] {
    layers->clear();
    return true;
  };
  (void)co_await on_pool(common_.pool, work);
}

asio::awaitable<bool> BoxStarter::await_gone(std::shared_ptr<BoxSession> live) {
  const auto found = boxes_.find(live->box_id());
  if (found == boxes_.end()) co_return true;
  const std::shared_ptr<RunningBox> running = found->second;
  // Not of this coroutine: a timer that has just run out calls back although it is destroyed.
  const auto waiter = std::make_shared<RunningBox::Waiter>(common_.loop);
  running->waiters.push_back(waiter);
  asio::steady_timer timer(common_.loop, common_.settings.end_timeout);
  timer.async_wait([waiter](const boost::system::error_code& problem) {
    if (problem) return;
    waiter->is_late = true;
    waiter->wakeup.notify();
  });
  while (!running->is_gone && !waiter->is_late) {
    const Woken woken = co_await waiter->wakeup.wait();
    if (woken == Woken::Canceled) break;
  }
  std::erase(running->waiters, waiter);
  co_return running->is_gone;
}

std::shared_ptr<RunningBox> BoxStarter::take_running(std::uint64_t box) {
  const auto found = boxes_.find(box);
  if (found == boxes_.end()) return nullptr;
  std::shared_ptr<RunningBox> running = std::move(found->second);
  boxes_.erase(found);
  running->end();
  return running;
}

void BoxStarter::on_box_ended(std::uint64_t box, const launch::RemoteEnd& end) {
  const auto running = take_running(box);
  if (!running) return;
  if (const auto session = running->session.lock()) session->box_ended(end);
}

void BoxStarter::on_launcher_gone(const std::vector<std::uint64_t>& boxes) {
  for (const std::uint64_t box : boxes) {
    const auto running = take_running(box);
    if (!running) continue;
    if (const auto session = running->session.lock()) session->launcher_gone();
  }
}

}  // namespace glovebox::session
