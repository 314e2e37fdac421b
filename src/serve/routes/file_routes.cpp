// Files and directories of a session: looked at, moved, changed, removed. Everything is done by the
// box's own agent, so what these routes show is what the code in the box sees.
#include "http/date.h"
#include "serve/bodies/file_paths.h"
#include "serve/helpers.h"
#include "serve/routes/handlers.h"

#include <boost/json/array.hpp>

#include <array>
#include <charconv>

namespace glovebox::serve {
namespace {

namespace json = boost::json;
using guest::JobKind;
using guest::StartJob;

// How many entries one list or search gives.
constexpr std::size_t kMostEntries = 100'000;

// What all of these need: the session to work with, and its paths.
struct Files {
  std::shared_ptr<session::LiveSession> live;
  FileRoots roots;
};

Result<Files, ApiError> open_files(const Call& call) {
  TRY(const session::SessionInfo info, find_session(call));
  TRY(std::shared_ptr<session::LiveSession> live, attach_session(call));
  return Files{std::move(live), FileRoots(info)};
}

json::object entry_json(const guest::Entry& entry, const std::string& path) {
  constexpr std::array<std::string_view, 4> kTypes = {"file", "directory", "symlink", "other"};
  json::object object;
  object["path"] = path;
  object["type"] = kTypes.at(static_cast<std::size_t>(entry.kind));
  object["size"] = entry.size;
  object["modified_at"] = rfc3339(static_cast<std::int64_t>(entry.modified_ns));
  object["created_at"] = rfc3339(static_cast<std::int64_t>(entry.created_ns));
  object["owner"] = entry.owner.empty() ? std::to_string(entry.uid) : entry.owner;
  object["group"] = entry.group.empty() ? std::to_string(entry.gid) : entry.group;
  object["mode"] = mode_to_digits(entry.mode);
  return object;
}

// A job without data, with its own error as the refusal.
asio::awaitable<Result<guest::JobOver, ApiError>> do_job(session::LiveSession& live, StartJob job) {
  CO_TRY(guest::JobOver over, or_refuse(co_await live.job(std::move(job))));
  if (over.error) co_return tl::unexpected(to_api_error(*over.error));
  co_return over;
}

StartJob make_job(JobKind kind, const FilePath& path, std::uint32_t flags = 0) {
  StartJob job;
  job.kind = kind;
  job.path = path.path;
  job.flags = flags;
  return job;
}

// Every path is checked before the first is touched.
Result<std::vector<FilePath>, ApiError> all_paths(const Call& call, const FileRoots& roots,
                                                  FileUse use) {
  std::vector<FilePath> paths;
  for (const std::string& path : call.request.all_query("path")) {
    TRY(FilePath found, roots.find(path, use));
    paths.push_back(std::move(found));
  }
  return paths;
}

// Permissions of one path, from {"mode":755,"owner":"..","group":".."}.
struct PermissionOrder {
  FilePath path;
  std::optional<std::uint32_t> mode;
  std::string owner;
  std::string group;
};

enum class BadMode : std::uint8_t { Refuse, Default };

asio::awaitable<Result<std::vector<PermissionOrder>, ApiError>> read_permissions(
    Call& call, const FileRoots& roots, BadMode bad_mode) {
  CO_TRY(const json::value body, co_await read_json(call, Empty::Refuse));
  const json::object* object = body.if_object();
  if (object == nullptr || object->empty()) {
    co_return refuse(400, "INVALID_REQUEST_BODY", "the body is an object with at least one path");
  }
  std::vector<PermissionOrder> orders;
  BodyProblems problems;
  for (const auto& [path, value] : *object) {
    PermissionOrder order;
    CO_TRY(order.path, roots.find(std::string_view(path.data(), path.size()), FileUse::Write));
    ObjectReader reader(value, std::string(path) + ".", problems, unknown_fields(call));
    order.owner = reader.text("owner").value_or("");
    order.group = reader.text("group").value_or("");
    const std::int64_t digits = reader.number("mode", 0, 1'000'000'000).value_or(0);
    if (digits != 0) order.mode = mode_from_digits(digits);
    if (digits != 0 && !order.mode && bad_mode == BadMode::Refuse) {
      reader.wrong("mode", "a number of octal digits such as 644");
    }
    orders.push_back(std::move(order));
  }
  CO_TRY_VOID(problems.check());
  co_return orders;
}

asio::awaitable<Result<void, ApiError>> apply_attributes(session::LiveSession& live,
                                                         const PermissionOrder& order) {
  if (!order.mode && order.owner.empty() && order.group.empty()) co_return Result<void, ApiError>{};
  StartJob job = make_job(JobKind::SetAttributes, order.path, guest::kFollow);
  job.mode = order.mode.value_or(guest::kAnyMode);
  job.owner = order.owner;
  job.group = order.group;
  CO_TRY_VOID(co_await do_job(live, std::move(job)));
  co_return Result<void, ApiError>{};
}

asio::awaitable<Answer> remove_paths(Call& call, std::uint32_t flags) {
  CO_TRY(const Files files, open_files(call));
  CO_TRY(const std::vector<FilePath> paths, all_paths(call, files.roots, FileUse::Write));
  if (paths.empty()) co_return refuse(400, "MISSING_QUERY", "missing query parameter 'path'");
  for (const FilePath& path : paths) {
    CO_TRY_VOID(co_await do_job(*files.live, make_job(JobKind::Remove, path, flags)));
  }
  co_return empty_answer();
}

Result<std::uint64_t, ApiError> depth_of(const Request& request) {
  const std::string* text = request.find_query("depth");
  std::uint64_t depth = 1;
  if (text == nullptr || text->empty()) return depth;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), depth);
  if (problem != std::errc() || end != text->data() + text->size()) {
    return refuse(400, "INVALID_REQUEST_BODY", "'depth' is a whole number, 0 or more");
  }
  return depth;
}

}  // namespace

asio::awaitable<Answer> file_info(Call& call) {
  CO_TRY(const Files files, open_files(call));
  json::object answer;
  for (const std::string& path : call.request.all_query("path")) {
    CO_TRY(const FilePath found, files.roots.find(path, FileUse::Read));
    CO_TRY(const guest::JobOver over, co_await do_job(*files.live, make_job(JobKind::Info, found)));
    if (!over.entry) co_return refuse(500, "RUNTIME_ERROR", "{}: nothing is known of it", path);
    answer[path] = entry_json(*over.entry, path);
  }
  co_return json_answer(200, answer);
}

asio::awaitable<Answer> delete_files(Call& call) { co_return co_await remove_paths(call, 0); }

asio::awaitable<Answer> delete_directories(Call& call) {
  co_return co_await remove_paths(call, guest::kRecursive);
}

asio::awaitable<Answer> move_files(Call& call) {
  CO_TRY(const Files files, open_files(call));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Refuse));
  const json::array* items = body.if_array();
  if (items == nullptr || items->empty()) {
    co_return refuse(400, "INVALID_REQUEST_BODY", "the body is a list of {{\"src\", \"dest\"}}");
  }
  std::vector<StartJob> jobs;
  BodyProblems problems;
  for (const json::value& item : *items) {
    std::string from;
    std::string to;
    {
      ObjectReader reader(item, "[].", problems, unknown_fields(call));
      from = reader.text("src").value_or("");
      to = reader.text("dest").value_or("");
    }
    CO_TRY_VOID(problems.check());
    CO_TRY(const FilePath source, files.roots.find(from, FileUse::Write));
    CO_TRY(const FilePath target, files.roots.find(to, FileUse::Write));
    if (source.root != target.root) {
      co_return refuse(400, "INVALID_FILE", "{} and {} are in different workspaces", from, to);
    }
    StartJob job = make_job(JobKind::Move, source);
    job.target = target.path;
    jobs.push_back(std::move(job));
  }
  for (StartJob& job : jobs) CO_TRY_VOID(co_await do_job(*files.live, std::move(job)));
  co_return empty_answer();
}

asio::awaitable<Answer> set_permissions(Call& call) {
  CO_TRY(const Files files, open_files(call));
  CO_TRY(const std::vector<PermissionOrder> orders,
         co_await read_permissions(call, files.roots, BadMode::Refuse));
  for (const PermissionOrder& order : orders) {
    CO_TRY_VOID(co_await apply_attributes(*files.live, order));
  }
  co_return empty_answer();
}

asio::awaitable<Answer> make_directories(Call& call) {
  CO_TRY(const Files files, open_files(call));
  CO_TRY(const std::vector<PermissionOrder> orders,
         co_await read_permissions(call, files.roots, BadMode::Default));
  for (const PermissionOrder& order : orders) {
    StartJob job = make_job(JobKind::MakeDirectory, order.path, guest::kParents);
    job.mode = order.mode.value_or(0755);
    CO_TRY_VOID(co_await do_job(*files.live, std::move(job)));
    // A directory that was there keeps its mode unless one was named.
    CO_TRY_VOID(co_await apply_attributes(*files.live, order));
  }
  co_return empty_answer();
}

asio::awaitable<Answer> replace_content(Call& call) {
  CO_TRY(const Files files, open_files(call));
  CO_TRY(const json::value body, co_await read_json(call, Empty::Refuse));
  const json::object* object = body.if_object();
  if (object == nullptr || object->empty()) {
    co_return refuse(400, "INVALID_REQUEST_BODY", "the body is an object with at least one path");
  }
  std::vector<std::pair<std::string, StartJob>> jobs;
  BodyProblems problems;
  for (const auto& [path, value] : *object) {
    CO_TRY(const FilePath found,
           files.roots.find(std::string_view(path.data(), path.size()), FileUse::Write));
    StartJob job = make_job(JobKind::Replace, found);
    ObjectReader reader(value, std::string(path) + ".", problems, unknown_fields(call));
    job.old_text = reader.text("old").value_or("");
    job.new_text = reader.text("new").value_or("");
    if (job.old_text.empty()) problems.add("old content must not be empty");
    jobs.emplace_back(std::string(path), std::move(job));
  }
  CO_TRY_VOID(problems.check());
  json::object counts;
  for (auto& [path, job] : jobs) {
    CO_TRY(const guest::JobOver over, co_await do_job(*files.live, std::move(job)));
    counts[path] = json::object{{"replacedCount", over.count}};
  }
  // Published clients that want the counts do not ask for them, and the others take them too.
  const std::string* verbose = call.request.find_query("verbose");
  if (verbose != nullptr && *verbose == "false") co_return empty_answer();
  co_return json_answer(200, counts);
}

asio::awaitable<Answer> search_files(Call& call) {
  CO_TRY(const Files files, open_files(call));
  const std::string* path = call.request.find_query("path");
  if (path == nullptr || path->empty()) {
    co_return refuse(400, "MISSING_QUERY", "missing query parameter 'path'");
  }
  const std::string* pattern = call.request.find_query("pattern");
  CO_TRY(const FilePath found, files.roots.find(*path, FileUse::Read));
  StartJob job = make_job(JobKind::Search, found);
  job.target = pattern == nullptr || pattern->empty() ? "**" : *pattern;
  CO_TRY(const std::vector<guest::Entry> entries,
         or_refuse(co_await files.live->entries(std::move(job), kMostEntries)));
  json::array answer;
  for (const guest::Entry& entry : entries) {
    answer.push_back(entry_json(entry, files.roots.relative(entry.path)));
  }
  co_return json_answer(200, answer);
}

asio::awaitable<Answer> list_directory(Call& call) {
  CO_TRY(const Files files, open_files(call));
  const std::string* path = call.request.find_query("path");
  if (path == nullptr || path->empty()) {
    co_return refuse(400, "MISSING_QUERY", "missing query parameter 'path'");
  }
  CO_TRY(const std::uint64_t depth, depth_of(call.request));
  CO_TRY(const FilePath found, files.roots.find(*path, FileUse::Read));
  json::array answer;
  if (depth == 0) {
    CO_TRY_VOID(co_await do_job(*files.live, make_job(JobKind::Info, found)));
    co_return json_answer(200, answer);
  }
  StartJob job = make_job(JobKind::List, found);
  job.limit = depth;
  CO_TRY(const std::vector<guest::Entry> entries,
         or_refuse(co_await files.live->entries(std::move(job), kMostEntries)));
  std::string prefix = *path;
  while (prefix.size() > 1 && prefix.ends_with('/')) prefix.pop_back();
  for (const guest::Entry& entry : entries) {
    // Told by the path that was asked for.
    const std::string below = entry.path.substr(std::min(found.path.size(), entry.path.size()));
    answer.push_back(entry_json(entry, prefix == "/" ? below : prefix + below));
  }
  co_return json_answer(200, answer);
}

}  // namespace glovebox::serve
