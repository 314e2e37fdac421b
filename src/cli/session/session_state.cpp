// The state of sessions, from the command line: `glovebox session recycle|fork|checkpoint|restore`.
#include "cli/session/session_state.h"

#include "authority/json_codec.h"
#include "authority/terms.h"
#include "base/file.h"
#include "base/strict_json.h"
#include "cli/layers.h"
#include "cli/session/service_client.h"
#include "cli/session/session_command.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;

constexpr const char* kKeyVariable = "GLOVEBOX_CHECKPOINT_KEY";
constexpr const char* kKeyFileVariable = "GLOVEBOX_CHECKPOINT_KEY_FILE";
constexpr std::string_view kType = "application/x-glovebox-checkpoint";

Result<json::object> object_of(const Reply& reply) {
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  const auto value = parse_strict_json(reply.body, kAnyLength);
  if (!value || !value->is_object()) return fail(Code::Os, "the service's answer is no JSON");
  return value->as_object();
}

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

// "word=value" terms as tagged JSON.
Result<json::value> ceiling_of(const std::vector<std::string>& terms) {
  std::vector<authority::Capability> all;
  for (const std::string& term : terms) {
    TRY(authority::Capability one, authority::parse_term(term));
    all.push_back(std::move(one));
  }
  TRY(const authority::AuthoritySet set, authority::AuthoritySet::granting(all));
  return authority::to_json(set);
}

Result<json::object> fork_body(const SessionOptions& options) {
  json::object body{{"count", options.count}};
  if (!options.name.empty()) body["name"] = options.name;
  if (options.force) body["force"] = true;
  if (!options.only.empty()) {
    TRY(body["ceiling"], ceiling_of(options.only));
  }
  json::object limits;
  for (const std::string& limit : options.limits) {
    const std::size_t equals = limit.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(Code::Invalid, "--limit '{}' is not NAME=AMOUNT", limit);
    }
    limits[limit.substr(0, equals)] = limit.substr(equals + 1);
  }
  if (!limits.empty()) body["limits"] = std::move(limits);
  return body;
}

std::string checkpoint_body(const SessionOptions& options) {
  json::object body;
  if (options.force) body["force"] = true;
  if (!options.state.empty()) {
    body["state"] = json::array(options.state.begin(), options.state.end());
  }
  return json::serialize(body);
}

std::string tenant_query(const SessionOptions& options) {
  return options.tenant.empty() ? "" : "?tenant=" + escape_query(options.tenant);
}

// A file that is there as a whole, or not at all: what stood there before stays until then.
class WholeFile {
 public:
  static Result<WholeFile> make(const std::string& path) {
    WholeFile file;
    file.path_ = path;
    file.draft_ = fmt::format("{}.partial-{}", path, ::getpid());
    TRY(file.fd_, open_file(file.draft_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    return file;
  }
  WholeFile(WholeFile&& other) noexcept
      : path_(std::move(other.path_)),
        draft_(std::exchange(other.draft_, {})),
        fd_(std::move(other.fd_)) {}
  WholeFile& operator=(WholeFile&&) = delete;
  ~WholeFile() {
    if (!draft_.empty()) ::unlink(draft_.c_str());
  }

  BorrowedFd fd() const { return fd_; }
  Result<void> finish() {
    if (::fsync(fd_.get()) != 0) return fail_os(errno, "write {}", path_);
    if (::rename(draft_.c_str(), path_.c_str()) != 0) return fail_os(errno, "write {}", path_);
    draft_.clear();
    const std::string above = std::filesystem::path(path_).parent_path().string();
    TRY(const UniqueFd dir, open_file(above.empty() ? "." : above, O_RDONLY | O_DIRECTORY));
    (void)::fsync(dir.get());  // a name that a crash of the machine takes back was the old one
    return {};
  }

 private:
  WholeFile() = default;
  std::string path_;
  std::string draft_;
  UniqueFd fd_;
};

// All of standard input in a file without a name: a request says how long its body is.
Result<UniqueFd> spool_input() {
  TRY(const std::string state, state_directory());
  TRY(UniqueFd file, open_file(state, O_RDWR | O_TMPFILE, 0600));
  std::string piece(std::size_t{256} << 10, '\0');
  while (true) {
    const ssize_t got = ::read(0, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_os(errno, "read standard input");
    if (got == 0) break;
    TRY_VOID(write_all(file, {piece.data(), static_cast<std::size_t>(got)}));
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return fail_os(errno, "go back in the file");
  return file;
}

}  // namespace

Result<checkpoint::Key> checkpoint_key(const SessionOptions& options) {
  if (!options.key_file.empty()) return checkpoint::read_key_file(options.key_file);
  if (const char* text = std::getenv(kKeyVariable)) {
    auto key = checkpoint::parse_key(text);
    if (!key) return fail(Code::Invalid, "{}: {}", kKeyVariable, key.error().message);
    return key;
  }
  if (const char* path = std::getenv(kKeyFileVariable)) return checkpoint::read_key_file(path);
  return fail(Code::Invalid,
              "a checkpoint needs a key of 32 bytes: --key-file FILE, {} or {} (make one with "
              "'head -c 32 /dev/urandom > FILE; chmod 600 FILE')",
              kKeyVariable, kKeyFileVariable);
}

std::string key_file_of(const SessionOptions& options) {
  if (!options.key_file.empty()) return options.key_file;
  const char* path = std::getenv(kKeyFileVariable);
  return std::getenv(kKeyVariable) == nullptr && path != nullptr ? path : "";
}

Result<CheckpointReply> fetch_checkpoint(HttpClient& service, const SessionOptions& options,
                                         const std::string& id, const checkpoint::Key& key,
                                         const HttpClient::Sink& sink) {
  Call call{.method = "POST",
            .target = session_target(id, "/checkpoint") + tenant_query(options),
            .body = checkpoint_body(options),
            .accept = kType};
  call.headers = {{"X-Glovebox-Key", key.to_hex()}};
  TRY(const Reply reply, service.stream(call, sink));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  return CheckpointReply{reply.header("X-Glovebox-Tag"), reply.header("X-Glovebox-Used"),
                         reply.header("X-Glovebox-State")};
}

Result<RestoreReply> push_checkpoint(HttpClient& service, const SessionOptions& options,
                                     const checkpoint::Key& key, BorrowedFd file) {
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return fail_os(errno, "look at the checkpoint");
  Call call{.method = "POST", .target = "/v1/isolated/restore" + tenant_query(options)};
  call.type = kType;
  call.headers = {{"X-Glovebox-Key", key.to_hex()}};
  std::vector<BodyPart> parts(1);
  parts[0].file = file;
  parts[0].size = static_cast<std::uint64_t>(facts.st_size);
  TRY(const Reply reply, service.send(call, parts));
  TRY(const json::object object, object_of(reply));
  return RestoreReply{text_of(object, "session_id"), text_of(object, "tag")};
}

Result<UniqueFd> open_checkpoint(const std::string& path) {
  if (path == "-") return spool_input();
  return open_file(path, O_RDONLY | O_NOCTTY);
}

Result<int> recycle_session(const SessionOptions& options) {
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  const json::object body{{"layer", options.drop ? "drop" : "keep"}};
  TRY(const Reply reply, service.call({.method = "POST",
                                       .target = session_target(id, "/recycle"),
                                       .body = json::serialize(body)}));
  TRY_VOID(object_of(reply));
  TRY_VOID(write_all(BorrowedFd(1), id + "\n"));
  return 0;
}

Result<int> fork_session(const SessionOptions& options) {
  TRY(const json::object body, fork_body(options));
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  TRY(const Reply reply, service.call({.method = "POST",
                                       .target = session_target(id, "/fork"),
                                       .body = json::serialize(body)}));
  TRY(const json::object object, object_of(reply));
  const json::value* sessions = object.if_contains("sessions");
  if (sessions == nullptr || !sessions->is_array()) return fail(Code::Os, "no sessions were named");
  std::string text;
  for (const json::value& each : sessions->as_array()) {
    if (each.is_object()) text += text_of(each.as_object(), "session_id") + "\n";
  }
  TRY_VOID(write_all(BorrowedFd(1), text));
  return 0;
}

Result<int> checkpoint_session(const SessionOptions& options) {
  TRY(const checkpoint::Key key, checkpoint_key(options));
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  if (options.to == "-") {
    const auto to_output = [](std::string_view bytes) { return write_all(BorrowedFd(1), bytes); };
    TRY_VOID(fetch_checkpoint(service, options, id, key, to_output));
    return 0;
  }
  TRY(WholeFile file, WholeFile::make(options.to));
  const auto to_file = [&file](std::string_view bytes) { return write_all(file.fd(), bytes); };
  TRY(const CheckpointReply reply, fetch_checkpoint(service, options, id, key, to_file));
  TRY_VOID(file.finish());
  TRY_VOID(write_all(BorrowedFd(1), fmt::format("{} {}\n", options.to, reply.state)));
  return 0;
}

Result<int> restore_session(const SessionOptions& options) {
  TRY(const checkpoint::Key key, checkpoint_key(options));
  TRY(const UniqueFd file, open_checkpoint(options.from));
  TRY(HttpClient service, open_service(IfMissing::Start));
  TRY(const RestoreReply restored, push_checkpoint(service, options, key, file));
  TRY_VOID(write_all(BorrowedFd(1), restored.session + "\n"));
  return 0;
}

}  // namespace glovebox::app
