// The state of sessions: fresh boxes, forks, and sessions as files.
//
// The key of a checkpoint comes with the request, in a header: the service keeps none. Who may use
// the service at all may ask for these as for a session; a token that is not admin's writes and
// restores checkpoints of its own alone, because its name is the tenant that they are sealed for.
#include "serve/routes/state_routes.h"

#include "authority/json_codec.h"
#include "authority/terms.h"
#include "base/file.h"
#include "base/quantity.h"
#include "host/resolve_authority.h"
#include "serve/bodies/create_body.h"
#include "serve/helpers.h"
#include "serve/session_quota.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::serve {
namespace {

namespace json = boost::json;

constexpr std::size_t kBuffer = 256 << 10;
constexpr std::string_view kKeyHeader = "x-glovebox-key";
constexpr std::string_view kCheckpointType = "application/x-glovebox-checkpoint";

// What a state of sessions is refused with.
ApiError state_refusal(const Error& error) {
  ApiError refused = to_api_error(error);
  switch (error.code) {
    case Code::Invalid: refused.status = 400; break;
    case Code::Denied: refused.status = 403; break;
    case Code::Unsupported:
      refused.status = 400;
      refused.code = "NOT_SUPPORTED";
      break;
    case Code::NotFound: refused.status = 404; break;
    case Code::Exhausted: refused.status = 409; break;
    case Code::Os:
      // Its box ended while this waited for it: by its own, or because the session is deleted.
      if (error.os_errno == ESHUTDOWN) {
        refused.status = 409;
        refused.code = "SESSION_ENDED";
      }
      break;
  }
  return refused;
}

Result<checkpoint::Key, ApiError> key_of(const Call& call) {
  const std::string* text = call.request.find_header(kKeyHeader);
  if (text == nullptr) {
    return refuse(400, "INVALID_REQUEST", "the header X-Glovebox-Key is missing: 64 hex digits");
  }
  auto key = checkpoint::parse_key(*text);
  if (!key) return refuse(400, "INVALID_REQUEST", "X-Glovebox-Key: {}", key.error().message);
  return *std::move(key);
}

Result<std::string, ApiError> tenant_of(const Call& call) {
  const std::string* asked = call.request.find_query("tenant");
  if (!call.identity.may(Scope::Admin)) {
    if (asked == nullptr || *asked == call.identity.name) return call.identity.name;
    return refuse(403, "FORBIDDEN", "{} is its own tenant", call.identity.name);
  }
  return asked == nullptr ? std::string() : *asked;
}

session::WhileRunning while_running(ObjectReader& reader) {
  return reader.flag("force").value_or(false) ? session::WhileRunning::End
                                              : session::WhileRunning::Refuse;
}

void read_limits(const json::value& value, BodyProblems& problems, Unknown unknown,
                 session::ForkRequest& request) {
  ObjectReader reader(value, "limits.", problems, unknown);
  std::vector<authority::Capability> budgets;
  for (const authority::BudgetInfo& info : authority::kBudgets) {
    const json::value* amount = reader.find(info.word);
    if (amount == nullptr) continue;
    const std::string text =
        amount->is_string() ? std::string(amount->as_string()) : json::serialize(*amount);
    auto budget = authority::parse_term(info.word, text);
    if (budget) {
      budgets.push_back(*std::move(budget));
    } else {
      reader.wrong(info.word, "an amount");
    }
  }
  if (const json::value* cpus = reader.find("cpus")) {
    const auto milli = parse_thousandths(cpus->is_string() ? std::string(cpus->as_string())
                                                           : json::serialize(*cpus));
    if (milli) {
      request.cpus_milli = *milli;
    } else {
      reader.wrong("cpus", "a number such as \"1.5\"");
    }
  }
  auto set = authority::AuthoritySet::granting(budgets);
  if (set) request.budgets = *std::move(set);
}

Result<session::ForkRequest, ApiError> read_fork(const Call& call, const json::value& body) {
  session::ForkRequest request;
  BodyProblems problems;
  {
    ObjectReader reader(body, "", problems, unknown_fields(call));
    const auto most = static_cast<std::int64_t>(session::kMaxForks);
    request.count = static_cast<std::size_t>(reader.number("count", 1, most).value_or(1));
    request.name = reader.text("name").value_or("");
    request.running = while_running(reader);
    if (const json::value* limits = reader.find("limits")) {
      read_limits(*limits, problems, unknown_fields(call), request);
    }
    if (const json::value* ceiling = reader.find("ceiling")) {
      auto set = authority::set_from_json(*ceiling);
      if (set) {
        request.ceiling = *std::move(set);
      } else {
        problems.add("'ceiling': {}", set.error().message);
      }
    }
  }
  TRY_VOID(problems.check());
  return request;
}

json::array kinds_json(const std::vector<session::StateKind>& kinds) {
  json::array array;
  for (const session::StateKind kind : kinds) array.emplace_back(session::to_text(kind));
  return array;
}

Result<std::vector<session::StateKind>, ApiError> read_kinds(
    const std::vector<std::string>& words) {
  std::vector<session::StateKind> kinds{session::StateKind::Config};
  for (const std::string& word : words) {
    const auto kind = session::parse_state_kind(word);
    if (!kind) return refuse(400, "INVALID_REQUEST_BODY", "'state': {}", kind.error().message);
    if (*kind != session::StateKind::Config) kinds.push_back(*kind);
  }
  return kinds;
}

struct Spooled {
  UniqueFd file;
  session::SpoolShare share;  // lives as long as the file
};

// The body in a file without a name, whatever its size.
asio::awaitable<Result<Spooled, ApiError>> spool_body(Call& call) {
  const Config& config = call.service.config;
  session::SpoolShare share = call.service.manager.spool_share();
  CO_TRY(UniqueFd file, or_refuse(open_file(config.state_directory, O_RDWR | O_TMPFILE, 0600)));
  const auto buffer = std::make_unique<char[]>(kBuffer);
  std::uint64_t received = 0;
  while (true) {
    const std::span<char> space(buffer.get(), kBuffer);
    const auto got = co_await call.exchange.read_some(space);
    if (!got) co_return tl::unexpected(body_refusal(got.error(), "INVALID_FILE"));
    if (*got == 0) break;
    received += *got;
    if (config.upload_bytes > 0 && received > config.upload_bytes) {
      co_return refuse(413, "BODY_TOO_LARGE", "an upload has at most {} bytes",
                       config.upload_bytes);
    }
    CO_TRY_VOID(or_refuse(share.take(*got)));
    CO_TRY_VOID(or_refuse(write_all(file, {buffer.get(), *got})));
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) {
    co_return refuse(500, "RUNTIME_ERROR", "the file cannot be read back");
  }
  co_return Spooled{std::move(file), std::move(share)};
}

// What is made again is held to the rules of what is made: the host's as they are today, and the
// ceilings of who asks and of whose session it is.
struct Reviewer {
  HostRules rules;
  std::vector<Identity> callers;

  Result<void> operator()(session::BoxRequest& request) const {
    TRY_VOID(check_host_rules(rules, request));
    for (const Identity& who : callers) {
      who.bound(request);
      if (!who.ceiling) continue;
      TRY(const host::ResolvedAuthority ceiling, host::resolve_paths(*who.ceiling));
      request.ceiling = request.ceiling ? request.ceiling->attenuate(ceiling.set) : ceiling.set;
    }
    return {};
  }
};

Reviewer reviewer_of(const Call& call, const session::SessionInfo& info) {
  Reviewer reviewer{call.service.rules, {call.identity}};
  const auto owner = info.effective.labels.find(std::string(kOwnerLabel));
  if (owner == info.effective.labels.end() || owner->second == call.identity.name) return reviewer;
  const Identity* other = call.service.auth.find_identity(owner->second);
  if (other != nullptr) reviewer.callers.push_back(*other);
  return reviewer;
}

}  // namespace

Result<session::SessionInfo, ApiError> find_other_session(const Call& call, const std::string& id) {
  auto info = call.service.manager.get(id);
  if (!info) return refuse(404, "SESSION_NOT_FOUND", "session not found");
  const auto owner = info->effective.labels.find(std::string(kOwnerLabel));
  const bool is_seen = call.identity.may(Scope::Admin) || (owner != info->effective.labels.end() &&
                                                           owner->second == call.identity.name);
  if (!is_seen) return refuse(404, "SESSION_NOT_FOUND", "session not found");
  return *std::move(info);
}

asio::awaitable<Answer> recycle_session(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Fine));
  BodyProblems problems;
  session::RecycleRequest request;
  {
    ObjectReader reader(body, "", problems, unknown_fields(call));
    const std::string layer = reader.text("layer").value_or("keep");
    if (layer == "drop") request.layers = session::Recycling::DropLayers;
    if (layer != "keep" && layer != "drop") reader.wrong("layer", "one of keep, drop");
  }
  CO_TRY_VOID(problems.check());
  // Variables of a session of a former service: what this service would pass on.
  EnvPassthrough all;
  request.env = passed_environment(all, call.service.environment, call.service.secret_names);
  request.review = reviewer_of(call, info);
  // A dead session that gets a box is one more that is alive.
  std::optional<Result<Room, ApiError>> room;
  request.take_room = [&call, &room]() -> Result<void> {
    room.emplace(Room::take(call, 1));
    if (*room) return {};
    return fail(Code::Exhausted, "{}", room->error().message);
  };
  auto renewed = co_await call.service.manager.recycle(info.id, std::move(request));
  if (room && !*room) co_return tl::unexpected(room->error());
  if (!renewed) co_return tl::unexpected(state_refusal(renewed.error()));
  audit(call, "recycle", {{"session_id", info.id}});
  co_return json_answer(200, session_state(*renewed));
}

asio::awaitable<Answer> fork_session(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Fine));
  CO_TRY(session::ForkRequest request, read_fork(call, body));
  CO_TRY(const Room room, Room::take(call, request.count));
  request.review = reviewer_of(call, info);
  auto children = co_await call.service.manager.fork(info.id, std::move(request));
  if (!children) co_return tl::unexpected(state_refusal(children.error()));
  json::array sessions;
  json::array ids;
  for (const session::SessionInfo& child : *children) {
    sessions.push_back(session_summary(child));
    ids.emplace_back(child.id);
  }
  audit(call, "fork", {{"session_id", info.id}, {"children", std::move(ids)}});
  co_return json_answer(201, {{"parent_id", info.id}, {"sessions", std::move(sessions)}});
}

asio::awaitable<Answer> checkpoint_session(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Fine));
  CO_TRY(const checkpoint::Key key, key_of(call));
  CO_TRY(std::string tenant, tenant_of(call));
  session::CheckpointRequest request{.key = key, .tenant = std::move(tenant)};
  BodyProblems problems;
  std::vector<std::string> words;
  {
    ObjectReader reader(body, "", problems, unknown_fields(call));
    words = reader.texts("state");
    request.running = while_running(reader);
  }
  CO_TRY_VOID(problems.check());
  if (!words.empty()) {
    CO_TRY(request.state, read_kinds(words));
  }
  auto file = co_await call.service.manager.checkpoint(info.id, std::move(request));
  if (!file) co_return tl::unexpected(state_refusal(file.error()));
  audit(call, "checkpoint", {{"session_id", info.id}, {"bytes", file->size}});
  Response head;
  head.headers = {{"Content-Type", std::string(kCheckpointType)},
                  {"X-Glovebox-State", json::serialize(kinds_json(file->state))},
                  {"X-Glovebox-Tag", file->tag},
                  {"X-Glovebox-Used", file->used}};
  call.exchange.begin(std::move(head), Length{file->size});
  co_await send_file(call, file->file, file->size);
  co_return already_sent();
}

asio::awaitable<Answer> restore_session(Call& call) {
  CO_TRY_VOID(check_available(call));
  CO_TRY(const Room room, Room::take(call, 1));
  CO_TRY(const checkpoint::Key key, key_of(call));
  CO_TRY(std::string tenant, tenant_of(call));
  CO_TRY(Spooled body, co_await spool_body(call));
  session::RestoreRequest request{.key = key, .tenant = std::move(tenant)};
  const Reviewer reviewer{call.service.rules, {call.identity}};
  request.review = [reviewer, owner = call.identity.name](session::BoxRequest& asked) {
    asked.labels[std::string(kOwnerLabel)] = owner;  // it belongs to who restores it
    return reviewer(asked);
  };
  auto restored = co_await call.service.manager.restore(std::move(body.file), std::move(request));
  if (!restored) {
    audit(call, "restore", {{"refused", restored.error().message}});
    co_return tl::unexpected(state_refusal(restored.error()));
  }
  audit(call, "restore", {{"session_id", restored->info.id}});
  json::object answer = session_state(restored->info);
  answer["state"] = kinds_json(restored->state);
  answer["tag"] = restored->tag;
  co_return json_answer(201, answer);
}

}  // namespace glovebox::serve
