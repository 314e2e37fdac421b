// Snapshots of sessions, and fresh boxes for them.
#include "async/co_try.h"
#include "async/on_pool.h"
#include "async/scoped_count.h"
#include "host/path_facts.h"
#include "session/manager/operations.h"

#include <algorithm>
#include <cerrno>

namespace glovebox::session {
namespace {

// How often a request that keeps changing is asked about before its session is called busy.
constexpr int kMostTries = 8;

// Whether a directory of the box is there in the next box, too.
bool outlives_the_box(const SessionInfo& info, const std::string& path) {
  const bool in_workspace = std::ranges::any_of(info.workspaces, [&](const WorkspaceInfo& place) {
    return place.mode != WorkspaceMode::Discard && host::is_within(path, place.path_inside());
  });
  return in_workspace || std::ranges::any_of(info.effective.binds, [&](const BindRequest& bind) {
           return bind.mode != WorkspaceMode::Discard && host::is_within(path, bind.dest);
         });
}

asio::awaitable<Result<std::optional<ShellState>>> shell_of(EntryPointer entry) {
  const std::shared_ptr<BoxSession> live = entry->live;
  std::optional<ShellState> state;
  // A cell has none of its own.
  const bool is_there = live && live->is_alive() && !entry->is_cell;
  if (!is_there || live->shell() == guest::ShellKind::None) co_return state;
  CO_TRY(state, co_await read_shell_state(*live));
  if (!outlives_the_box(entry->record.info, state->cwd)) state->cwd.clear();
  co_return state;
}

// A session whose fresh box did not come.
void die(ManagerParts& parts, SessionEntry& entry, const std::string& sentence) {
  entry.is_being_renewed = false;
  SessionInfo& info = entry.record.info;
  if (info.state == SessionState::Dead) return;
  info.state = SessionState::Dead;
  info.end = SessionEnd{EndCause::AgentGone,
                        {},
                        fmt::format("no fresh box could be made: {}", sentence),
                        std::chrono::system_clock::now()};
  parts.registry.put_later(entry);
  parts.registry.tell(EventKind::Ended, entry, info.end->sentence);
}

}  // namespace

Result<BoxRequest> asked_of(const SessionEntry& entry, const Env& env) {
  // Another box would need the layer while the first still has it, or what is in memory would go.
  if (entry.plan && !plan::handed_layers(*entry.plan).empty()) {
    return fail(Code::Unsupported,
                "a session whose layers have a disk budget cannot be made again or forked");
  }
  const SessionInfo& info = entry.record.info;
  BoxRequest request = entry.asked ? *entry.asked : info.effective;
  // What may have changed since is taken from where it changes.
  request.name = info.effective.name;
  request.labels = info.effective.labels;
  request.idle_timeout = info.effective.idle_timeout;
  if (entry.asked) return request;
  if (info.policy && request.policy.name.empty()) {
    return fail(Code::Unsupported,
                "the session's policy was written out in its request, and such texts end with the "
                "service that took it");
  }
  for (plan::EnvEntry& entry_of : request.env) {
    const auto known = std::ranges::find(env, entry_of.name, &plan::EnvEntry::name);
    if (known == env.end()) {
      return fail(Code::Unsupported,
                  "the value of {} ended with the service that the session was made by",
                  entry_of.name);
    }
    entry_of.value = known->value;
  }
  return request;
}

// What is taken from the session while the checks wait for the disk must not come back with the
// next box: then they are made again, of what it has left. Nothing is awaited between the last look
// and the return.
asio::awaitable<Result<BoxRequest>> asked_again(ManagerParts& parts, EntryPointer entry, Env env,
                                                Review review) {
  for (int tries = 0; tries < kMostTries; ++tries) {
    CO_TRY(const BoxRequest asked, asked_of(*entry, env));
    BoxRequest tried = asked;
    if (entry->record.info.policy) tried.policy.if_digest = entry->record.info.policy->digest;
    auto work = [preparer = parts.common.preparer, tried = std::move(tried), known = entry->places,
                 review]() mutable -> Result<BoxRequest> {
      if (review) TRY_VOID(review(tried));
      TRY_VOID(preparer->explain(tried, known));
      return std::move(tried);
    };
    CO_TRY(BoxRequest checked, co_await on_pool(parts.common.pool, work));
    CO_TRY(const BoxRequest now, asked_of(*entry, env));
    if (now != asked) continue;
    checked.policy.if_digest = asked.policy.if_digest;
    co_return checked;
  }
  co_return fail(Code::Exhausted, "the session is being changed; try again");
}

asio::awaitable<Result<Snapshot>> snapshot_session(ManagerParts& parts, EntryPointer entry) {
  Semaphore::Permit shell;
  if (entry->live && entry->live->is_alive() && !entry->is_cell) {
    CO_TRY(shell, co_await entry->live->take_shell(WhenBusy::Wait));
  }
  std::vector<plan::EnvEntry> none;
  co_return co_await take_snapshot(parts, entry, std::move(none));
}

asio::awaitable<Result<Snapshot>> take_snapshot(ManagerParts& parts, EntryPointer entry, Env env) {
  const SessionInfo& info = entry->record.info;
  Snapshot snapshot;
  snapshot.id = info.id;
  snapshot.parent = info.parent;
  snapshot.policy = info.policy;
  snapshot.state = {StateKind::Config};
  CO_TRY(snapshot.spec, asked_of(*entry, env));
  CO_TRY(snapshot.shell, co_await shell_of(entry));
  // That it could be made again is known by trying everything but to make it.
  BoxRequest tried = snapshot.spec;
  if (info.policy) tried.policy.if_digest = info.policy->digest;
  const auto work = [preparer = parts.common.preparer, request = std::move(tried),
                     known = entry->places]() -> Result<std::string> {
    TRY_VOID(preparer->explain(request, known));
    return preparer->policy_document(request.policy);
  };
  CO_TRY(std::string document, co_await on_pool(parts.common.pool, work));
  // What it has lost meanwhile is not written down.
  CO_TRY(snapshot.spec, asked_of(*entry, env));
  snapshot.spec.policy.document = std::move(document);
  CO_TRY(const std::string text, encode_snapshot(snapshot));
  CO_TRY(const Snapshot back, decode_snapshot(text));
  if (back != snapshot) {
    co_return fail(Code::Unsupported, "the session cannot be written down without loss");
  }
  co_return snapshot;
}

asio::awaitable<Result<void>> renew_session(ManagerParts& parts, EntryPointer entry,
                                            BoxRequest request, SessionOrigin origin) {
  CO_TRY_VOID(parts.registry.check_wanted(*entry));
  entry->is_being_renewed = true;
  // Who has its channel is told; a cell leaves its worker to the others.
  if (entry->python) entry->python->close({"closed", "the session has got a fresh box"});
  if (entry->live && !entry->is_cell) {
    entry->live->close(EndCause::Deleted, "the session has got a fresh box");
    const bool is_gone = co_await parts.boxes.await_gone(entry->live);
    if (!is_gone) {
      die(parts, *entry, "the old one did not end in time");
      co_return unexpected(Error{Code::Os, ETIMEDOUT, "the box did not end in time; try again"});
    }
  }
  parts.common.step("renew: the old box is gone");
  origin.id = entry->record.info.id;
  origin.runs_before = entry->record.info.runs;
  origin.known = entry->places;
  if (entry->record.info.policy) origin.policy_digest = entry->record.info.policy->digest;
  auto prepared = co_await prepare_box(parts, request, origin);
  if (!prepared) {
    die(parts, *entry, prepared.error().message);
    co_return unexpected(std::move(prepared).error());
  }
  parts.common.step("renew: layers are made");
  auto started = co_await start_prepared(parts, *prepared, origin);
  // It may have been deleted meanwhile.
  auto wanted = started ? parts.registry.check_wanted(*entry) : unexpected(started.error());
  if (!wanted) {
    StartedBox unused;
    if (started) unused = *started;
    co_await parts.boxes.discard_box(*prepared, std::move(unused));
    die(parts, *entry, wanted.error().message);
    co_return wanted;
  }
  entry->asked = std::move(request);
  fill_entry(parts, *entry, *started, **prepared);
  std::vector<UniqueFd> holds;
  for (HeldLayer& layer : (*prepared)->layers) layer.keep(holds);
  parts.common.step("renew: the box is there");
  auto written = co_await parts.registry.put(*entry);
  std::swap(entry->holds, holds);
  entry->is_being_renewed = false;
  catch_up(parts, *entry, **prepared);
  parts.common.step("renew: written down");
  co_return written;
}

asio::awaitable<Result<SessionInfo>> recycle_session(ManagerParts& parts, EntryPointer entry,
                                                     RecycleRequest request) {
  CO_TRY(const auto turn, co_await entry->layer_turn->take(WhenBusy::Wait));
  CO_TRY_VOID(parts.registry.check_wanted(*entry));
  // Before anything ends.
  CO_TRY(BoxRequest asked,
         co_await asked_again(parts, entry, std::move(request.env), std::move(request.review)));
  // Nothing is awaited from this look to the moment when renew() keeps the state as it is.
  std::optional<Count> count;
  if (entry->record.info.state == SessionState::Dead) {
    CO_TRY_VOID(parts.registry.check_room(1));
    if (request.take_room) CO_TRY_VOID(request.take_room());
    count.emplace(parts.registry.starting());
  }
  SessionOrigin origin;
  std::vector<std::string> old;
  for (const WorkspaceInfo& place : entry->record.info.workspaces) {
    if (place.layer_id.empty()) continue;
    if (request.layers == Recycling::DropLayers) {
      old.push_back(place.layer_id);
      old.insert(old.end(), place.below.begin(), place.below.end());
      continue;
    }
    LayerSource source;
    source.id = place.layer_id;
    // One that others stand on is frozen.
    if (parts.layers.is_used(place.layer_id, entry.get())) source.kind = LayerSource::Kind::Stack;
    origin.layers.emplace(place.path, std::move(source));
  }
  CO_TRY_VOID(co_await renew_session(parts, entry, std::move(asked), std::move(origin)));
  parts.registry.tell(EventKind::Recycled, *entry, {});
  co_await parts.layers.remove_layers(std::move(old));
  co_return info_of(*entry);
}

}  // namespace glovebox::session
