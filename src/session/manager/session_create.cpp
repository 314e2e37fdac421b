// How a session begins.
#include "async/co_try.h"
#include "async/on_pool.h"
#include "async/scoped_count.h"
#include "session/manager/operations.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace glovebox::session {
namespace {

class NoReader final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream /*stream*/,
                                     std::string_view /*bytes*/) override {
    co_return Result<void>();
  }
};

EntryPointer enter(ManagerParts& parts, const StartedBox& started, Prepared& prepared) {
  const EntryPointer entry = parts.registry.make_entry(started.id);
  fill_entry(parts, *entry, started, prepared);
  parts.layers.take_memory(*entry, prepared.layers);
  parts.registry.add(entry);
  catch_up(parts, *entry, prepared);
  return entry;
}

asio::awaitable<Result<void>> try_box(ManagerParts& parts, const std::string& directory) {
  BoxRequest request;
  request.workspaces.push_back({directory, WorkspaceMode::Overlay});
  SessionOrigin origin;
  CO_TRY(const SessionInfo info,
         co_await create_session(parts, std::move(request), std::move(origin)));
  CO_TRY(const EntryPointer entry, parts.registry.find(info.id));
  NoReader reader;
  RunRequest run;
  run.code = ": > probe";
  const auto result = co_await entry->live->run(std::move(run), reader);
  CO_TRY_VOID(co_await remove_session(parts, entry, LayerFate::Remove, EndCause::Deleted,
                                      "the session was deleted"));
  if (!result) co_return unexpected(result.error());
  if (result->code != 0) co_return fail(Code::Os, "a box could not write into its layer");
  co_return Result<void>();
}

}  // namespace

asio::awaitable<Result<std::shared_ptr<Prepared>>> prepare_box(ManagerParts& parts,
                                                               BoxRequest request,
                                                               const SessionOrigin& origin) {
  const std::string asked_digest = request.policy.if_digest;
  if (!origin.policy_digest.empty()) request.policy.if_digest = origin.policy_digest;
  const auto work = [preparer = parts.common.preparer, request = std::move(request),
                     layers = origin.layers,
                     known = origin.known] { return preparer->prepare(request, layers, known); };
  auto drafted = co_await on_pool(parts.common.pool, work);
  if (drafted) {
    drafted->effective.policy.if_digest = asked_digest;
    co_return std::make_shared<Prepared>(*std::move(drafted));
  }
  if (drafted.error().code == Code::Denied) {
    SessionEvent event;
    event.kind = EventKind::Denied;
    event.detail = drafted.error().message;
    parts.registry.events().tell(std::move(event));
  }
  co_return unexpected(std::move(drafted).error());
}

asio::awaitable<Result<StartedBox>> start_prepared(ManagerParts& parts,
                                                   std::shared_ptr<Prepared> prepared,
                                                   const SessionOrigin& origin) {
  if (!prepared->python) return parts.boxes.start_box(std::move(prepared), origin);
  return parts.python->start(std::move(prepared), origin);
}

asio::awaitable<Result<SessionInfo>> create_session(ManagerParts& parts, BoxRequest request,
                                                    SessionOrigin origin) {
  if (parts.common.is_stopping) co_return fail(Code::Os, "the service is ending");
  CO_TRY_VOID(parts.registry.check_room(1));
  const Count count(parts.registry.starting());
  CO_TRY(std::shared_ptr<Prepared> prepared, co_await prepare_box(parts, request, origin));
  co_return co_await create_prepared(parts, std::move(request), std::move(origin),
                                     std::move(prepared));
}

asio::awaitable<Result<SessionInfo>> create_prepared(ManagerParts& parts, BoxRequest request,
                                                     SessionOrigin origin,
                                                     std::shared_ptr<Prepared> prepared) {
  parts.common.step("create: layers are made");
  auto started = co_await start_prepared(parts, prepared, origin);
  if (!started) {
    parts.common.preparer->forget_facts();
    StartedBox none;
    co_await parts.boxes.discard_box(prepared, std::move(none));
    co_return unexpected(std::move(started).error());
  }
  if (prepared->effective.prove && started->proved.empty()) {
    co_await parts.boxes.discard_box(prepared, *started);
    co_return fail(Code::Denied, "the session could not be proved: its box has shown nothing");
  }
  if (auto same = origin.recheck ? origin.recheck() : Result<void>(); !same) {
    co_await parts.boxes.discard_box(prepared, *started);
    co_return unexpected(std::move(same).error());
  }
  const EntryPointer entry = enter(parts, *started, *prepared);
  entry->record.info.parent = origin.parent;
  entry->asked = entry->record.info.effective;
  entry->asked->env = std::move(request.env);
  entry->asked->policy.document = std::move(request.policy.document);
  parts.common.step("create: the box is there");
  // Only what is written down survives us, so the caller hears of it when it is.
  auto written = co_await parts.registry.put(*entry);
  if (!written) {
    parts.registry.erase(started->id);
    co_await parts.boxes.discard_box(prepared, *started);
    co_return unexpected(std::move(written).error());
  }
  for (HeldLayer& layer : prepared->layers) layer.keep(entry->holds);
  parts.registry.tell(EventKind::Created, *entry, entry->record.info.effective.name);
  co_return info_of(*entry);
}

void fill_entry(const ManagerParts& parts, SessionEntry& entry, const StartedBox& started,
                Prepared& prepared) {
  entry.plan = started.plan;
  entry.live = started.live;
  entry.python = started.python;
  entry.is_cell = prepared.python && prepared.python->backend == Backend::Cell;
  SessionInfo& info = entry.record.info;
  info.state = SessionState::Active;
  info.end.reset();
  info.effective = std::move(prepared.effective);
  info.workspaces = std::move(prepared.workspaces);
  info.policy = prepared.plan.policy;
  info.idle_timeout = info.effective.idle_timeout.value_or(parts.common.settings.default_idle);
  info.not_enforced = prepared.plan.not_enforced;
  entry.record.guarantees = prepared.plan.guarantees;
  entry.record.proved = started.proved;
  entry.record.terms = prepared.plan.terms;
  entry.places = prepared.places;
  entry.origin = prepared.origin;
}

void catch_up(ManagerParts& parts, SessionEntry& entry, const Prepared& prepared) {
  const std::string id = entry.record.info.id;
  if (const auto& end = entry.live->end()) note_end(parts, id, *end);
  narrow_started(parts, entry, prepared);
  if (entry.python && entry.python->is_over()) {
    parts.python->on_python_end(id, {"crash", "the interpreter has ended"});
  }
}

asio::awaitable<Abilities> probe_host(ManagerParts& parts) {
  Abilities abilities;
  const auto facts = parts.common.preparer->facts();
  if (facts) abilities.tier = facts->tier;
  std::string directory = "/tmp/glovebox-probe-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) {
    abilities.problem = fmt::format("make a directory to try a box with: {}", errno_text(errno));
    co_return abilities;
  }
  auto tried = co_await try_box(parts, directory);
  std::error_code ignored;  // an empty directory in /tmp does no harm
  std::filesystem::remove(directory, ignored);
  abilities.available = tried.has_value();
  abilities.overlay = tried.has_value();
  if (!tried) abilities.problem = tried.error().message;
  co_return abilities;
}

}  // namespace glovebox::session
