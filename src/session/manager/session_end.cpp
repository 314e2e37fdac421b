// How sessions end and are forgotten, and what their boxes tell.
#include "async/co_try.h"
#include "session/manager/operations.h"
#include "workspace/tree/printable.h"

#include <cerrno>
#include <chrono>
#include <utility>

namespace glovebox::session {
namespace {

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

std::string kept_text(const LeftBehind& kept) {
  std::string text;
  for (const KeptLayer& one : kept) {
    if (!text.empty()) text += "; ";
    text += fmt::format("changes in {} are kept as layer {}",
                        workspace::printable(one.layer.origin), one.layer.id);
  }
  return text;
}

}  // namespace

void note_end(ManagerParts& parts, const std::string& id, const SessionEnd& end) {
  const EntryPointer found = parts.registry.find_or_null(id);
  if (!found) return;
  SessionEntry& entry = *found;
  SessionInfo& info = entry.record.info;
  if (info.state == SessionState::Dead || entry.is_being_renewed) return;
  info.state = SessionState::Dead;
  info.end = end;
  entry.record.usage.output_bytes = entry.live->output_bytes();
  entry.record.usage.cpu_ns = entry.live->usage().cpu_ns;
  entry.record.usage.peak_memory_bytes = entry.live->usage().peak_memory_bytes;
  if (entry.python) entry.python->close(python_end(end));
  if (!entry.is_being_removed) parts.registry.put_later(entry);
  entry.live->forget_layers();
  if (!entry.is_being_removed && !entry.memory.empty()) {
    parts.common.tasks.spawn(parts.layers.settle_layers(found));
  }
  parts.registry.tell(EventKind::Ended, entry, end.sentence);
}

void note_denied(ManagerParts& parts, const std::string& id, const egress::Denied& denied,
                 std::uint64_t times) {
  const EntryPointer entry = parts.registry.find_or_null(id);
  if (!entry) return;
  std::string text = egress::to_text(denied);
  if (times > 1) text += fmt::format(", {} times", times);
  parts.registry.tell(EventKind::Denied, *entry, std::move(text), words_of(denied));
}

asio::awaitable<Result<LeftBehind>> remove_session(ManagerParts& parts, EntryPointer entry,
                                                   LayerFate fate, EndCause cause,
                                                   std::string sentence) {
  const std::string id = entry->record.info.id;
  if (entry->is_being_removed) co_return fail(Code::NotFound, "there is no session {}", id);
  entry->is_being_removed = true;
  if (entry->is_cell) {
    entry->python->close({"closed", std::move(sentence)});
  } else if (entry->live) {
    const std::shared_ptr<BoxSession> live = entry->live;
    live->close(cause, std::move(sentence));
    const bool is_gone = co_await parts.boxes.await_gone(live);
    if (!is_gone) {
      entry->is_being_removed = false;
      co_return unexpected(Error{Code::Os, ETIMEDOUT, "the box did not end in time; try again"});
    }
  }
  // The box was ended first, because who has the turn may be waiting for something in it. A commit
  // is whole before its layer goes, and so is what moves from memory to the disk; a fork has its
  // children, who keep what they stand on; and a fresh box is not wanted any more.
  const auto turn = co_await entry->layer_turn->take(WhenBusy::Wait);
  if (!turn) {
    entry->is_being_removed = false;
    co_return unexpected(turn.error());
  }
  Result<LeftBehind> kept = LeftBehind();
  if (fate == LayerFate::Keep) kept = co_await parts.layers.keep_layers(entry);
  // Forgotten first, on disk: a layer that no session names and that has no mark is removed by the
  // next service, so being killed here leaves nothing behind.
  Result<void> forgotten;
  if (kept) forgotten = co_await parts.registry.remove(id);
  if (!kept || !forgotten) {
    entry->is_being_removed = false;
    co_return unexpected(kept ? forgotten.error() : kept.error());
  }
  parts.registry.erase(id);
  entry->holds.clear();
  entry->memory.clear();
  parts.registry.tell(EventKind::Deleted, *entry, kept_text(*kept));
  co_await parts.layers.remove_layers(layers_of(entry->record.info));
  if (!kept->empty()) co_await parts.layers.expire_kept();
  co_return kept;
}

asio::awaitable<void> remove_idle(ManagerParts& parts, EntryPointer entry, LayerFate fate) {
  (void)co_await remove_session(parts, std::move(entry), fate, EndCause::Idle,
                                "the session was idle");
}

asio::awaitable<Result<SessionInfo>> end_session(ManagerParts& parts, EntryPointer entry) {
  if (!entry->live) co_return info_of(*entry);
  if (entry->is_cell) {
    entry->python->close({"closed", "the session was ended"});
    co_return info_of(*entry);
  }
  entry->live->close(EndCause::Deleted, "the session was ended");
  const bool is_gone = co_await parts.boxes.await_gone(entry->live);
  if (!is_gone) {
    co_return unexpected(Error{Code::Os, ETIMEDOUT, "the box did not end in time; try again"});
  }
  co_return info_of(*entry);
}

asio::awaitable<void> stop_sessions(ManagerParts& parts, LayerFate fate) {
  parts.common.is_stopping = true;
  parts.sweeper.stop();
  parts.python->sweep(PythonCells::Whose::All);
  std::vector<EntryPointer> all;
  for (const auto& [id, entry] : parts.registry.entries()) all.push_back(entry);
  for (const EntryPointer& entry : all) {
    if (entry->live) entry->live->close(EndCause::ServiceEnded, "the service has ended");
  }
  for (const EntryPointer& entry : all) {
    if (entry->live)
      (void)co_await parts.boxes.await_gone(entry->live);  // bounded; the launcher kills the rest
  }
  for (const EntryPointer& entry : all) {
    if (fate == LayerFate::Keep) co_await parts.layers.settle_layers(entry);
  }
  for (const EntryPointer& entry : all) {
    if (fate != LayerFate::Remove) break;
    // What is left is removed by the next service on this directory.
    (void)co_await remove_session(parts, entry, fate, EndCause::ServiceEnded,
                                  "the service has ended");
  }
  co_await parts.layers.drain();
  co_await parts.common.tasks.join();
  parts.registry.write_runs();
  (void)co_await parts.registry.flush();  // there is no caller left to tell
  parts.registry.events().close();
}

}  // namespace glovebox::session
