// How a session begins, and what its box tells later.
#include "async/co_try.h"
#include "async/on_pool.h"
#include "async/scoped_count.h"
#include "base/uuid.h"
#include "session/box/self_test.h"
#include "session/manager/session_manager.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace glovebox::session {
namespace {

constexpr const char* kShells[] = {"/bin/bash", "/usr/bin/bash", "/bin/sh"};

class NoReader final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream /*stream*/,
                                     std::string_view /*bytes*/) override {
    co_return Result<void>();
  }
};

PythonEnd python_end(const SessionEnd& end) {
  if (!end.limit) {
    const bool is_wanted = end.cause == EndCause::Deleted || end.cause == EndCause::Idle;
    const bool is_crash = end.cause == EndCause::AgentGone;
    return {is_wanted ? "closed" : is_crash ? "crash" : "worker", end.sentence};
  }
  switch (*end.limit) {
    case launch::LimitKind::Wall: return {"wall", end.sentence};
    case launch::LimitKind::Memory: return {"memory", end.sentence};
    case launch::LimitKind::Pids: return {"pids", end.sentence};
    case launch::LimitKind::Cpu: return {"cpu", end.sentence};
    case launch::LimitKind::Output: return {"output", end.sentence};
    case launch::LimitKind::Disk: return {"disk", end.sentence};
  }
  return {"worker", end.sentence};
}

// The kind of capability that allows an act of the network. Of datagrams there is none.
std::string_view capability_of(egress::Denied::Act act) {
  switch (act) {
    case egress::Denied::Act::Connect: return "connect_tcp";
    case egress::Denied::Act::Resolve: return "resolve_name";
    case egress::Denied::Act::Send: return "datagrams";
    case egress::Denied::Act::Listen: return "listen_tcp";
  }
  return "unknown";
}

DenialWords words_of(const egress::Denied& denied) {
  const std::string capability(capability_of(denied.act));
  // Where no term would allow it, a budget or the network itself is in the way.
  return {capability, fmt::format("{} {}", egress::to_text(denied.act), denied.object),
          denied.missing.empty() ? "network:" + denied.why : "authority:" + capability};
}

}  // namespace

asio::awaitable<Result<void>> SessionManager::check(BoxRequest request) {
  const auto work = [preparer = preparer_, request = std::move(request)] {
    return preparer->check(request);
  };
  co_return co_await on_pool(pool_, work);
}

asio::awaitable<RequestFault> SessionManager::find_fault(BoxRequest request) {
  const auto work = [preparer = preparer_, request = std::move(request)] {
    return preparer->find_fault(request);
  };
  co_return co_await on_pool(pool_, work);
}

Result<void> SessionManager::check_room(std::size_t more) const {
  // A dead one whose layer could not leave memory holds as much as one that is alive.
  const auto pinned =
      static_cast<std::size_t>(std::ranges::count_if(sessions_, [](const auto& one) {
        return one.second->record.info.state == SessionState::Dead && !one.second->memory.empty();
      }));
  if (counts().alive + pinned + *starting_ + more <= settings_.max_sessions) return {};
  return fail(Code::Exhausted, "{} sessions at a time", settings_.max_sessions);
}

asio::awaitable<Result<SessionInfo>> SessionManager::create(BoxRequest request) {
  Origin origin;
  co_return co_await create_from(std::move(request), std::move(origin));
}

asio::awaitable<Result<std::shared_ptr<Prepared>>> SessionManager::prepare(BoxRequest request,
                                                                           const Origin& origin) {
  const std::string asked_digest = request.policy.if_digest;
  if (!origin.policy_digest.empty()) request.policy.if_digest = origin.policy_digest;
  const auto work = [preparer = preparer_, request = std::move(request), layers = origin.layers,
                     known = origin.known] { return preparer->prepare(request, layers, known); };
  auto drafted = co_await on_pool(pool_, work);
  if (drafted) {
    drafted->effective.policy.if_digest = asked_digest;
    co_return std::make_shared<Prepared>(*std::move(drafted));
  }
  if (drafted.error().code == Code::Denied) {
    SessionEvent event;
    event.kind = EventKind::Denied;
    event.detail = drafted.error().message;
    events_.tell(std::move(event));
  }
  co_return unexpected(std::move(drafted).error());
}

asio::awaitable<Result<SessionInfo>> SessionManager::create_from(BoxRequest request,
                                                                 Origin origin) {
  if (is_stopping_) co_return fail(Code::Os, "the service is ending");
  CO_TRY_VOID(check_room(1));
  const Count count(starting_);
  CO_TRY(std::shared_ptr<Prepared> prepared, co_await prepare(request, origin));
  co_return co_await create_prepared(std::move(request), std::move(origin), std::move(prepared));
}

asio::awaitable<Result<SessionInfo>> SessionManager::create_prepared(
    BoxRequest request, Origin origin, std::shared_ptr<Prepared> prepared) {
  step("create: layers are made");
  auto born = co_await start_any_box(prepared, origin);
  if (!born) {
    preparer_->forget_facts();
    StartedBox none;
    co_await discard_box(prepared, std::move(none));
    co_return unexpected(std::move(born).error());
  }
  if (prepared->effective.prove && born->proved.empty()) {
    co_await discard_box(prepared, *born);
    co_return fail(Code::Denied, "the session could not be proved: its box has shown nothing");
  }
  if (auto same = origin.recheck ? origin.recheck() : Result<void>(); !same) {
    co_await discard_box(prepared, *born);
    co_return unexpected(std::move(same).error());
  }
  const EntryPointer entry = enter(*born, *prepared);
  entry->record.info.parent = origin.parent;
  entry->asked = entry->record.info.effective;
  entry->asked->env = std::move(request.env);
  entry->asked->policy.document = std::move(request.policy.document);
  step("create: the box is there");
  // Only what is written down survives us, so the caller hears of it when it is.
  auto written = co_await store_->put(entry->record);
  if (!written) {
    sessions_.erase(born->id);
    co_await discard_box(prepared, *born);
    co_return unexpected(std::move(written).error());
  }
  for (HeldLayer& layer : prepared->layers) layer.keep(entry->holds);
  tell(EventKind::Created, *entry, entry->record.info.effective.name);
  co_return info_of(*entry);
}

BoxSettings SessionManager::box_settings(const Prepared& prepared,
                                         const std::shared_ptr<const std::string>& id) {
  BoxSettings settings;
  settings.hello.workspace = prepared.home;
  settings.hello.shells.assign(std::begin(kShells), std::end(kShells));
  settings.watch = prepared.plan.watch;
  settings.cgroup = prepared.plan.cgroup;
  settings.spool_directory = spool_directory_;
  const std::weak_ptr<bool> there = is_there_;
  settings.on_end = [this, there, id](const SessionEnd& end) {
    if (!there.expired()) on_end(*id, end);
  };
  settings.on_run = [this, there, id](const RunRecord& run) {
    if (!there.expired()) on_run(*id, run);
  };
  return settings;
}

asio::awaitable<Result<StartedBox>> SessionManager::start_box(std::shared_ptr<Prepared> prepared,
                                                              const Origin& origin) {
  StartedBox started;
  started.id = origin.id;
  if (started.id.empty()) {
    CO_TRY(started.id, make_uuid());
  }
  started.whose = std::make_shared<std::string>(started.id);
  BoxSettings settings = box_settings(*prepared, started.whose);
  settings.runs_before = origin.runs_before;
  if (origin.shell) {
    settings.env.emplace();
    for (const auto& [name, value] : origin.shell->env) {
      settings.env->push_back(fmt::format("{}={}", name, value));
    }
  }
  const auto ending = std::make_shared<std::weak_ptr<BoxSession>>();  // as soon as it is there
  if (prepared->plan.network) {
    const std::weak_ptr<bool> there = is_there_;
    const auto denied = [this, there, whose = started.whose](const egress::Denied& what,
                                                             std::uint64_t times) {
      if (!there.expired()) on_denied(*whose, what, times);
    };
    const auto must_end = [ending](const std::string& why) {
      const auto live = ending->lock();
      if (live) live->end_for(EndCause::Network, {}, fmt::format("the box was ended: {}", why));
    };
    CO_TRY(settings.network, networks_.add(*prepared->plan.network, denied, must_end));
  }
  started.plan = std::shared_ptr<const plan::LaunchPlan>(prepared, &prepared->plan);
  CO_TRY(launch::RemoteBox box, co_await launcher_.start_box(started.plan));
  const std::uint64_t box_id = box.id;
  started.live = std::make_shared<BoxSession>(loop_, std::move(box), std::move(settings));
  *ending = started.live;
  started.running = std::make_shared<RunningBox>();
  started.running->session = started.live;
  // One that ended while it was handed over is reported no more; that it is gone is told by its
  // line.
  if (launcher_.is_running(box_id)) {
    boxes_.emplace(box_id, started.running);
  } else {
    started.running->end();
  }
  auto begun = co_await started.live->begin(*started.plan, settings_.start_timeout);
  if (begun && prepared->effective.prove) {
    auto proved = co_await run_self_test(*started.live, settings_.state_directory);
    if (proved) {
      started.proved = *std::move(proved);
    } else {
      started.live->close(EndCause::Deleted, proved.error().message);
      begun = unexpected(std::move(proved).error());
    }
  }
  if (begun && origin.shell && !origin.shell->cwd.empty() && origin.shell->cwd != prepared->home) {
    co_await enter_directory(*started.live, origin.shell->cwd);
  }
  if (begun) co_return started;
  (void)co_await await_gone(started.live);  // bounded; the layer is removed in any case
  co_return unexpected(std::move(begun).error());
}

// A box that will be no session: it ends, and then its layers go, which is work for the pool.
asio::awaitable<void> SessionManager::discard_box(std::shared_ptr<Prepared> prepared,
                                                  StartedBox started) {
  const bool is_cell = prepared->python && prepared->python->backend == plan::Backend::Cell;
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
  (void)co_await on_pool(pool_, work);
}

WallTime SessionManager::next_creation() {
  constexpr std::chrono::microseconds kStep{1};
  last_creation_ = std::max(std::chrono::system_clock::now(), last_creation_ + kStep);
  return last_creation_;
}

SessionManager::EntryPointer SessionManager::enter(const StartedBox& started, Prepared& prepared) {
  auto entry = std::make_shared<Entry>();
  entry->layer_turn = std::make_shared<Semaphore>(loop_, 1, "the layer");
  SessionInfo& info = entry->record.info;
  info.id = started.id;
  info.created_at = next_creation();
  info.last_run_at = info.created_at;
  fill_record(*entry, started, prepared);
  take_memory(*entry, prepared.layers);
  sessions_.emplace(started.id, entry);
  // The box may have ended in the meantime, before anybody knew it by this name.
  if (const auto& end = started.live->end()) on_end(started.id, *end);
  narrow_started(*entry, prepared);
  if (started.python && started.python->is_over()) {
    on_python_end(started.id, {"crash", "the interpreter has ended"});
  }
  return entry;
}

void SessionManager::on_run(const std::string& id, const RunRecord& run) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Entry& entry = *found->second;
  SessionEvent event;
  event.kind = run.ended_at ? EventKind::RunEnded : EventKind::RunStarted;
  event.session = id;
  event.run = run;
  if (entry.record.info.policy) event.policy_digest = entry.record.info.policy->digest;
  if (run.ended_at) {
    entry.record.info.runs = entry.live->run_count();
    entry.record.info.last_run_at = *run.ended_at;
    entry.runs.push_back(run);
    if (entry.runs.size() > Store::kRemembered) entry.runs.pop_front();
    store_->note_run({id, run, entry.record.info.runs});
    unwritten_runs_.emplace_back(id, run);
  }
  events_.tell(std::move(event));
}

void SessionManager::on_denied(const std::string& id, const egress::Denied& denied,
                               std::uint64_t times) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  std::string text = egress::to_text(denied);
  if (times > 1) text += fmt::format(", {} times", times);
  tell(EventKind::Denied, *found->second, std::move(text), words_of(denied));
}

void SessionManager::on_end(const std::string& id, const SessionEnd& end) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Entry& entry = *found->second;
  SessionInfo& info = entry.record.info;
  if (info.state == SessionState::Dead || entry.is_being_renewed) return;
  info.state = SessionState::Dead;
  info.end = end;
  entry.record.usage.output_bytes = entry.live->output_bytes();
  entry.record.usage.cpu_ns = entry.live->usage().cpu_ns;
  entry.record.usage.peak_memory_bytes = entry.live->usage().peak_memory_bytes;
  if (entry.python) entry.python->close(python_end(end));
  if (!entry.is_being_removed) store_->put_later(entry.record);
  entry.live->forget_layers();
  if (!entry.is_being_removed && !entry.memory.empty()) {
    asio::co_spawn(loop_, settle_layers(found->second), asio::detached);
  }
  tell(EventKind::Ended, entry, end.sentence);
}

void SessionManager::on_box_ended(std::uint64_t box, const launch::RemoteEnd& end) {
  const auto found = boxes_.find(box);
  if (found == boxes_.end()) return;
  const std::shared_ptr<RunningBox> running = found->second;
  boxes_.erase(found);
  running->end();
  if (const auto session = running->session.lock()) session->box_ended(end);
}

void SessionManager::on_launcher_gone(const std::vector<std::uint64_t>& boxes) {
  for (const std::uint64_t box : boxes) {
    const auto found = boxes_.find(box);
    if (found == boxes_.end()) continue;
    const std::shared_ptr<RunningBox> running = found->second;
    boxes_.erase(found);
    running->end();
    if (const auto session = running->session.lock()) session->launcher_gone();
  }
}

asio::awaitable<SessionManager::Abilities> SessionManager::probe() {
  Abilities abilities;
  const auto facts = preparer_->facts();
  if (facts) abilities.tier = facts->tier;
  std::string directory = "/tmp/glovebox-probe-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) {
    abilities.problem = fmt::format("make a directory to try a box with: {}", errno_text(errno));
    co_return abilities;
  }
  auto tried = co_await try_box(directory);
  std::error_code ignored;  // an empty directory in /tmp harms nobody
  std::filesystem::remove(directory, ignored);
  abilities.available = tried.has_value();
  abilities.overlay = tried.has_value();
  if (!tried) abilities.problem = tried.error().message;
  co_return abilities;
}

asio::awaitable<Result<void>> SessionManager::try_box(const std::string& directory) {
  BoxRequest request;
  request.workspaces.push_back({directory, WorkspaceMode::Overlay, Persist::Keep});
  CO_TRY(const SessionInfo info, co_await create(std::move(request)));
  CO_TRY(const std::shared_ptr<LiveSession> live, attach(info.id));
  NoReader reader;
  RunRequest run;
  run.code = ": > probe";
  const auto result = co_await live->run(std::move(run), reader);
  CO_TRY_VOID(co_await remove(info.id, LayerFate::Remove));
  if (!result) co_return unexpected(result.error());
  if (result->code != 0) co_return fail(Code::Os, "a box could not write into its layer");
  co_return Result<void>();
}

}  // namespace glovebox::session
