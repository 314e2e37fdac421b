// `glovebox session`: everything but runs (session_run.cpp) and files (session_files.cpp).
#include "app/session_command.h"

#include "app/client/service.h"
#include "app/commands.h"
#include "app/session_start.h"
#include "base/file.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace glovebox::app {
namespace {

namespace json = boost::json;
using Act = SessionOptions::Act;

Result<json::value> parse_reply(const Reply& reply) {
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  boost::system::error_code problem;
  json::value value = json::parse(reply.body, problem);
  if (problem) return fail(Code::Os, "the service's answer is no JSON: {}", problem.message());
  return value;
}

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return "";
  return std::string(value->as_string());
}

// What came from the service goes to a terminal: nothing in it may be a control character.
std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char each) { return static_cast<unsigned char>(each) < 0x20 || each == 0x7f; }, '?');
  return text;
}

struct Listed {
  std::string id, name, status, created, workspace, parent;
};

Result<std::vector<Listed>> list_sessions(HttpClient& service) {
  TRY(const Reply reply, service.call({.target = "/v1/isolated/sessions"}));
  TRY(const json::value value, parse_reply(reply));
  std::vector<Listed> sessions;
  const json::object* body = value.if_object();
  const json::value* list = body == nullptr ? nullptr : body->if_contains("sessions");
  if (list == nullptr || !list->is_array()) return fail(Code::Os, "the service lists no sessions");
  for (const json::value& each : list->as_array()) {
    const json::object* object = each.if_object();
    if (object == nullptr) continue;
    Listed one{text_of(*object, "session_id"),
               text_of(*object, "name"),
               text_of(*object, "status"),
               text_of(*object, "created_at"),
               "",
               text_of(*object, "parent_id")};
    if (const json::value* work = object->if_contains("workspace"); work && work->is_object()) {
      one.workspace = text_of(work->as_object(), "path");
    }
    sessions.push_back(std::move(one));
  }
  return sessions;
}

Result<int> start(const SessionOptions& options) {
  TRY(std::string body, session_request_json(options));
  TRY(HttpClient service, open_service(IfMissing::Start));
  TRY(const Reply reply,
      service.call({.method = "POST", .target = "/v1/isolated/session", .body = std::move(body)}));
  TRY(const json::value value, parse_reply(reply));
  if (!value.is_object()) return fail(Code::Os, "the service named no session");
  TRY_VOID(write_all(BorrowedFd(1), printable(text_of(value.as_object(), "session_id")) + "\n"));
  return 0;
}

std::string line_of(const Listed& one, const std::string& indent) {
  return printable(fmt::format("{}{}  {:<7} {}  {:<12} {}", indent, one.id, one.status, one.created,
                               one.name.empty() ? "-" : one.name, one.workspace)) +
         "\n";
}

// A session and below it those that were forked from it. What the service says cannot make it go on
// for ever: nothing is deeper than there are sessions.
void add_branch(const std::vector<Listed>& all, const Listed& one, std::size_t depth,
                std::string& text) {
  if (depth > all.size()) return;
  text += line_of(one, std::string(depth * 2, ' '));
  for (const Listed& each : all) {
    if (!each.parent.empty() && each.parent == one.id) add_branch(all, each, depth + 1, text);
  }
}

Result<int> list(const SessionOptions& options) {
  auto service = open_service(IfMissing::Fail);
  if (!service && service.error().code == Code::NotFound) {
    TRY_VOID(write_all(BorrowedFd(1), options.json ? "{\"sessions\":[]}\n" : ""));
    return 0;
  }
  if (!service) return tl::unexpected(service.error());
  if (options.json) {
    TRY(const Reply reply, service->call({.target = "/v1/isolated/sessions"}));
    if (!reply.ok()) return tl::unexpected(refusal_of(reply));
    TRY_VOID(write_all(BorrowedFd(1), reply.body + "\n"));
    return 0;
  }
  TRY(const std::vector<Listed> sessions, list_sessions(*service));
  std::string text;
  if (options.tree) {
    for (const Listed& each : sessions) {
      const bool is_root = std::ranges::find(sessions, each.parent, &Listed::id) == sessions.end();
      if (is_root) add_branch(sessions, each, 0, text);
    }
  } else {
    for (const Listed& each : sessions) text += line_of(each, "");
  }
  TRY_VOID(write_all(BorrowedFd(1), text));
  return 0;
}

Result<int> stop(const SessionOptions& options) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  std::vector<std::string> ids;
  if (options.all) {
    TRY(const std::vector<Listed> sessions, list_sessions(service));
    for (const Listed& each : sessions) ids.push_back(each.id);
  } else {
    TRY(std::string id, find_session(service, options.session));
    ids.push_back(std::move(id));
  }
  for (const std::string& id : ids) {
    const char* query = options.keep ? "?keep_layers=true" : "";
    TRY(const Reply reply,
        service.call({.method = "DELETE", .target = session_target(id, "") + query}));
    if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  }
  return 0;
}

Result<int> diff(const SessionOptions& options) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  const std::string_view accept = options.diff.json  ? "application/json"
                                  : options.diff.tar ? "application/gzip"
                                                     : "text/x-diff";
  std::string query;
  if (!options.from_session.empty()) {
    TRY(const std::string from, find_session(service, options.from_session));
    query = "?from=" + escape_query(from);
  }
  TRY(const Reply reply,
      service.stream({.target = session_target(id, "/diff") + query, .accept = accept},
                     [](std::string_view bytes) { return write_all(BorrowedFd(1), bytes); }));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  return 0;
}

json::array array_of(const std::vector<std::string>& words) {
  return json::array(words.begin(), words.end());
}

// 1 when changes are held or conflict; the service then says which.
Result<int> commit(const SessionOptions& options) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  json::object body;
  if (!options.commit.only.empty()) body["only"] = array_of(options.commit.only);
  if (!options.commit.reject.empty()) body["reject"] = array_of(options.commit.reject);
  if (!options.commit.accept.empty()) body["accept_risky"] = array_of(options.commit.accept);
  if (options.commit.dry_run) body["dry_run"] = true;
  TRY(const Reply reply, service.call({.method = "POST",
                                       .target = session_target(id, "/commit"),
                                       .body = json::serialize(body)}));
  const bool held = reply.status == 409;
  if (!reply.ok() && !held) return tl::unexpected(refusal_of(reply));
  TRY_VOID(write_all(BorrowedFd(1), reply.body + "\n"));
  return held ? 1 : 0;
}

Result<int> ask(const SessionOptions& options, std::string_view method, std::string_view what) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  TRY(const Reply reply, service.call({.method = method, .target = session_target(id, what)}));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  if (!reply.body.empty()) TRY_VOID(write_all(BorrowedFd(1), reply.body + "\n"));
  return 0;
}

Result<int> act(const SessionOptions& options) {
  switch (options.act) {
    case Act::Start: return start(options);
    case Act::List: return list(options);
    case Act::Run: return run_in_session(options);
    case Act::Shell: return shell_in_session(options);
    case Act::Put: return put_file(options);
    case Act::Get: return get_file(options);
    case Act::Ls: return list_files(options);
    case Act::Diff: return diff(options);
    case Act::Commit: return commit(options);
    case Act::Undo: return ask(options, "POST", "/undo");
    case Act::Report: return ask(options, "GET", "/report");
    case Act::Stop: return stop(options);
    case Act::Recycle: return recycle_session(options);
    case Act::Fork: return fork_session(options);
    case Act::Checkpoint: return checkpoint_session(options);
    case Act::Restore: return restore_session(options);
    case Act::Send: return send_session(options);
    case Act::Receive: return receive_session(options);
  }
  return fail(Code::Invalid, "no such command");
}

}  // namespace

std::string session_target(std::string_view id, std::string_view what) {
  return fmt::format("/v1/isolated/session/{}{}", escape_query(id), what);
}

Result<std::string> find_session(HttpClient& service, const std::string& named) {
  TRY(const std::vector<Listed> sessions, list_sessions(service));
  if (named == "last") {
    const auto newest = std::ranges::max_element(sessions, {}, &Listed::created);
    if (newest == sessions.end()) {
      return fail(Code::NotFound, "no sessions: start one with 'glovebox session start'");
    }
    return newest->id;
  }
  std::vector<std::string> found;
  for (const Listed& each : sessions) {
    if (each.id == named) return each.id;
    if (each.name == named || each.id.starts_with(named)) found.push_back(each.id);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return fail(Code::NotFound, "there is no session '{}'", named);
  return fail(Code::Invalid, "'{}' can mean {} sessions; write more of the id", named,
              found.size());
}

int session_command(const SessionOptions& options) {
  const auto code = act(options);
  return code ? *code : refuse(code.error());
}

}  // namespace glovebox::app
