// `glovebox session`: everything but runs (session_run.cpp) and files (session_files.cpp).
#include "cli/session/session_command.h"

#include "base/file.h"
#include "base/strict_json.h"
#include "cli/commands.h"
#include "cli/last_run.h"
#include "cli/session/service_client.h"
#include "cli/session/session_start.h"
#include "host/path_facts.h"
#include "workspace/tree/printable.h"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;
using Act = SessionOptions::Act;

Result<json::value> parse_reply(const Reply& reply) {
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  auto value = parse_strict_json(reply.body, kAnyLength);
  if (!value) return fail(Code::Os, "the service's answer: {}", value.error().message);
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
  std::string id, name, status, created, parent;
  std::vector<std::string> workspaces;  // in the session's order
  std::string first_overlay;            // the first that has changes apart from it

  std::string first_workspace() const { return workspaces.empty() ? "" : workspaces.front(); }
  // The innermost that is at or above a directory; empty: none is.
  std::string workspace_around(const std::string& directory) const {
    std::string found;
    for (const std::string& each : workspaces) {
      if (host::is_within(directory, each) && each.size() > found.size()) found = each;
    }
    return found;
  }
};

void add_workspace(const json::value& told, Listed& session) {
  if (!told.is_object()) return;
  std::string path = text_of(told.as_object(), "path");
  const bool is_overlay = text_of(told.as_object(), "mode") == "overlay";
  if (is_overlay && session.first_overlay.empty()) session.first_overlay = path;
  if (!path.empty()) session.workspaces.push_back(std::move(path));
}

// One is told alone, several also as a list.
void add_workspaces(const json::object& told, Listed& session) {
  const json::value* all = told.if_contains("workspaces");
  if (all != nullptr && all->is_array()) {
    for (const json::value& each : all->as_array()) add_workspace(each, session);
  } else if (const json::value* only = told.if_contains("workspace")) {
    add_workspace(*only, session);
  }
}

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
               text_of(*object, "parent_id"),
               {},
               ""};
    add_workspaces(*object, one);
    sessions.push_back(std::move(one));
  }
  return sessions;
}

// The newest that has to do with the current directory: a workspace of it is at or above it, or it
// has none, and so nothing of any directory to lose.
Result<std::string> last_session(const std::vector<Listed>& sessions) {
  if (sessions.empty()) {
    return fail(Code::NotFound, "no sessions: start one with 'glovebox session start'");
  }
  TRY(const std::string here, current_directory());
  const Listed* newest = nullptr;
  for (const Listed& each : sessions) {
    if (!each.workspaces.empty() && each.workspace_around(here).empty()) continue;
    if (newest == nullptr || each.created > newest->created) newest = &each;
  }
  if (newest != nullptr) return newest->id;
  return fail(Code::NotFound,
              "no session has a workspace at or above {}: name one by its id ('glovebox session "
              "list' shows them)",
              printable(here));
}

// As `glovebox run` says it. Only root is told.
Result<void> say_what_is_missing(const json::object& created) {
  const json::value* missing = created.if_contains("not_enforced");
  if (missing == nullptr || !missing->is_array()) return {};
  std::string text;
  for (const json::value& each : missing->as_array()) {
    if (!each.is_object()) continue;
    text += fmt::format("glovebox: not enforced here: {}: {}\n",
                        printable(text_of(each.as_object(), "name")),
                        printable(text_of(each.as_object(), "why")));
  }
  return write_all(BorrowedFd(2), text);
}

Result<int> start(const SessionOptions& options) {
  TRY(std::string body, session_request_json(options));
  TRY(HttpClient service, open_service(IfMissing::Start));
  TRY(const Reply reply,
      service.call({.method = "POST", .target = "/v1/isolated/session", .body = std::move(body)}));
  TRY(const json::value value, parse_reply(reply));
  if (!value.is_object()) return fail(Code::Os, "the service named no session");
  TRY_VOID(say_what_is_missing(value.as_object()));
  TRY_VOID(write_all(BorrowedFd(1), printable(text_of(value.as_object(), "session_id")) + "\n"));
  return 0;
}

std::string line_of(const Listed& one, const std::string& indent) {
  return printable(fmt::format("{}{}  {:<7} {}  {:<12} {}", indent, one.id, one.status, one.created,
                               one.name.empty() ? "-" : one.name, one.first_workspace())) +
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

// What was not committed waits as layers, which are where the service is.
Result<void> say_kept(const Reply& reply) {
  TRY(const json::value value, parse_reply(reply));
  const json::object* body = value.if_object();
  const json::value* kept = body == nullptr ? nullptr : body->if_contains("kept");
  if (kept == nullptr || !kept->is_array()) return {};
  const char* host = std::getenv("GLOVEBOX_HOST");
  const bool is_elsewhere = host != nullptr && *host != '\0';
  std::string text;
  for (const json::value& each : kept->as_array()) {
    if (!each.is_object()) continue;
    const std::string layer = printable(text_of(each.as_object(), "layer"));
    const json::value* changes = each.as_object().if_contains("changes");
    const std::string count = changes == nullptr ? "0" : json::serialize(*changes);
    text += fmt::format(
        "glovebox: {} in {} {} not committed and kept{}: see them with 'glovebox diff {}', take "
        "them over with 'glovebox commit {}', remove them with 'glovebox layers --remove {}'\n",
        count == "0"   ? "changes"
        : count == "1" ? "1 change"
                       : printable(count) + " changes",
        printable(text_of(each.as_object(), "workspace")), count == "1" ? "is" : "are",
        is_elsewhere ? " on the service's host" : "", layer, layer, layer);
  }
  return write_all(BorrowedFd(2), text);
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
    const char* query = options.discard ? "" : "?keep_layers=true";
    TRY(const Reply reply,
        service.call({.method = "DELETE", .target = session_target(id, "") + query}));
    if (reply.status == 403 && !options.discard) {
      return fail(Code::Denied,
                  "session {} is still there: this token may not keep what it changed (scope "
                  "admin). Take it over with 'glovebox session commit {}', or end it with "
                  "'glovebox session stop --discard {}'",
                  printable(id), printable(id), printable(id));
    }
    if (!reply.ok()) return tl::unexpected(refusal_of(reply));
    if (!options.discard) TRY_VOID(say_kept(reply));
  }
  return 0;
}

// As the service knows it. One that is not there is the service's to refuse.
std::string chosen_workspace(const SessionOptions& options) {
  if (options.workspace.empty()) return "";
  std::error_code problem;
  const auto path = std::filesystem::weakly_canonical(options.workspace, problem);
  return problem ? options.workspace : path.string();
}

// Of several workspaces the one that was named, or else the one that the current directory is in,
// or else the first with changes apart from it, which is the service's choice.
struct Place {
  std::string path{};       // for people; empty: the session has no workspace
  std::string asked_for{};  // for the service; empty: its choice
};

Result<Place> find_place(HttpClient& service, const std::string& id,
                         const SessionOptions& options) {
  std::string named = chosen_workspace(options);
  if (!named.empty()) return Place{named, named};
  TRY(const std::vector<Listed> sessions, list_sessions(service));
  const auto found = std::ranges::find(sessions, id, &Listed::id);
  if (found == sessions.end()) return Place{};
  const auto here = current_directory();
  std::string around = here && found->workspaces.size() > 1 ? found->workspace_around(*here) : "";
  if (!around.empty()) return Place{around, around};
  const std::string& overlay = found->first_overlay;
  return Place{overlay.empty() ? found->first_workspace() : overlay, ""};
}

std::string with_workspace(const Place& place, std::string query) {
  if (place.asked_for.empty()) return query;
  return query + (query.empty() ? "?" : "&") + "workspace=" + escape_query(place.asked_for);
}

// Which directory a diff, commit or undo speaks of.
Result<void> say_place(const std::string& id, const Place& place) {
  const std::string where = place.path.empty() ? "which has no workspace" : printable(place.path);
  return write_all(BorrowedFd(2), fmt::format("glovebox: session {}, {}\n", printable(id), where));
}

// Makes text that comes in pieces safe for a terminal, line by line.
class LineEscaper {
 public:
  std::string add(std::string_view bytes) {
    rest_ += bytes;
    std::string out;
    for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n')) {
      out += workspace::printable_line(std::string_view(rest_).substr(0, end)) + "\n";
      rest_.erase(0, end + 1);
    }
    return out;
  }
  std::string rest() const { return workspace::printable_line(rest_); }

 private:
  std::string rest_;
};

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
  TRY(const Place place, find_place(service, id, options));
  query = with_workspace(place, std::move(query));
  TRY_VOID(say_place(id, place));
  // Names and contents are the box's: on a terminal nothing of them may drive it.
  const bool is_text = !options.diff.json && !options.diff.tar;
  LineEscaper escaper;
  const bool is_escaped = is_text && ::isatty(1) == 1;
  TRY(const Reply reply,
      service.stream({.target = session_target(id, "/diff") + query, .accept = accept},
                     [&](std::string_view bytes) {
                       return write_all(BorrowedFd(1),
                                        is_escaped ? escaper.add(bytes) : std::string(bytes));
                     }));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  TRY_VOID(write_all(BorrowedFd(1), escaper.rest()));
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
  if (!options.commit.accept_rules.empty()) {
    body["accept_rules"] = array_of(options.commit.accept_rules);
  }
  if (!options.commit.accept_classes.empty()) {
    body["accept_classes"] = array_of(options.commit.accept_classes);
  }
  if (options.commit.dry_run) body["dry_run"] = true;
  TRY(const Place place, find_place(service, id, options));
  if (!place.asked_for.empty()) body["workspace"] = place.asked_for;
  TRY_VOID(say_place(id, place));
  TRY(const Reply reply, service.call({.method = "POST",
                                       .target = session_target(id, "/commit"),
                                       .body = json::serialize(body)}));
  const bool held = reply.status == 409;
  if (!reply.ok() && !held) return tl::unexpected(refusal_of(reply));
  TRY_VOID(write_all(BorrowedFd(1), reply.body + "\n"));
  return held ? 1 : 0;
}

Result<int> report(const SessionOptions& options) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  TRY(const Reply reply, service.call({.target = session_target(id, "/report")}));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  TRY_VOID(write_all(BorrowedFd(1), reply.body + "\n"));
  return 0;
}

Result<int> undo(const SessionOptions& options) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  TRY(const Place place, find_place(service, id, options));
  TRY_VOID(say_place(id, place));
  const std::string target = session_target(id, "/undo") + with_workspace(place, "");
  TRY(const Reply reply, service.call({.method = "POST", .target = target}));
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
    case Act::Undo: return undo(options);
    case Act::Report: return report(options);
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
  if (named == "last") return last_session(sessions);
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
