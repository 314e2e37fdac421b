#include "session/python/python_broker.h"

#include "async/co_try.h"
#include "session/python/python_connect.h"
#include "session/python/python_request.h"
#include "session/python/python_secret.h"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include <sys/random.h>

namespace glovebox::session {
namespace {

namespace json = boost::json;
using authority::AbsolutePath;
using authority::Capability;
using authority::Effect;

constexpr std::size_t kMostRandom = std::size_t{1} << 20;
constexpr std::size_t kMostFile = std::size_t{48} << 20;
constexpr std::size_t kMostOutput = std::size_t{8} << 20;
constexpr std::size_t kMostWords = 1024;
constexpr std::int64_t kMostSeconds = 3600;
constexpr std::size_t kPiece = std::size_t{64} << 10;

PythonMessage to_message(json::object answer, std::uint64_t id, const std::string& blob) {
  answer["id"] = id;
  return blob.empty() ? text_message(answer) : message_with_bytes(answer, blob);
}

std::string_view error_type(const Error& error) {
  if (error.code == Code::Denied) return "PolicyError";
  if (error.code == Code::NotFound || error.os_errno == ENOENT) return "FileNotFoundError";
  if (error.os_errno == ETIMEDOUT) return "TimeoutError";
  if (error.code == Code::Invalid || error.code == Code::Unsupported) return "ValueError";
  return "OSError";
}

class Collected final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
    std::string& into = stream == guest::Stream::Error ? error : output;
    if (output.size() + error.size() + bytes.size() > kMostOutput) {
      co_return fail(Code::Exhausted, "the command printed more than {} bytes", kMostOutput);
    }
    into += bytes;
    co_return Result<void>();
  }
  std::string output;
  std::string error;
};

Result<json::object> tell_time() {
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return json::object{
      {"value", json::object{{"time", seconds(now)}, {"monotonic", seconds(steady)}}}};
}

Result<json::object> draw_random(const json::object& payload, std::string& blob) {
  const auto size = number_at(payload, "size").value_or(32);
  if (size < 1 || size > static_cast<std::int64_t>(kMostRandom)) {
    return fail(Code::Invalid, "'size' is from 1 to {}", kMostRandom);
  }
  blob.resize(static_cast<std::size_t>(size));
  for (std::size_t at = 0; at < blob.size();) {
    const ssize_t got = ::getrandom(blob.data() + at, blob.size() - at, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_os(errno, "draw random bytes");
    at += static_cast<std::size_t>(got);
  }
  return bytes_value(blob.size());
}

Result<AbsolutePath> path_of(const json::object& payload) {
  return AbsolutePath::parse(text_at(payload, "path"));
}

// A workspace that was handed in grants what its mode says, as far as nothing denies it.
bool is_in_workspace(const PythonPlan& plan, const AbsolutePath& path, bool is_write) {
  for (const plan::Workspace& place : plan.workspaces) {
    const bool is_writable = place.mode != WorkspaceMode::Read;
    if ((is_writable || !is_write) && host::is_within(path.text(), place.path_inside())) {
      return true;
    }
  }
  return false;
}

Result<void> check_file(const PythonPlan& plan, const AbsolutePath& path, bool is_write) {
  const Capability use =
      is_write ? Capability(authority::WritePath{path}) : Capability(authority::ReadPath{path});
  const Effect effect = plan.authority.decide(use).effect;
  if (effect == Effect::Allow) return {};
  if (effect == Effect::Silent && is_in_workspace(plan, path, is_write)) return {};
  return fail(Code::Denied, "{}", is_write ? "write_path" : "read_path");
}

// No part of the path is a link: a link could lead to what is not granted.
asio::awaitable<Result<void>> refuse_links(LiveSession& box, std::string path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    guest::StartJob look;
    look.kind = guest::JobKind::Info;
    look.path = path.substr(0, slash);
    auto found = co_await box.job(std::move(look));
    if (!found) {
      const bool is_missing =
          found.error().code == Code::NotFound || found.error().os_errno == ENOENT;
      if (is_missing && slash == std::string::npos) co_return Result<void>();  // to be made
      co_return unexpected(std::move(found).error());
    }
    if (found->entry && found->entry->kind == guest::EntryKind::Symlink) {
      co_return fail(Code::Denied, "{}", "read_path");
    }
    if (slash == std::string::npos) co_return Result<void>();
  }
}

}  // namespace

asio::awaitable<Result<json::object>> PythonBroker::read_file(const BrokerRequest& request,
                                                              std::string& blob) {
  CO_TRY(const AbsolutePath path, path_of(request.payload));
  CO_TRY_VOID(check_file(plan_, path, /*is_write=*/false));
  CO_TRY_VOID(co_await refuse_links(*box_, path.text()));
  guest::StartJob job;
  job.kind = guest::JobKind::Read;
  job.path = path.text();
  CO_TRY(const std::unique_ptr<FileJob> file, co_await box_->start_job(std::move(job)));
  CO_TRY(const guest::Entry entry, co_await file->read_entry());
  std::array<char, kPiece> piece{};
  while (true) {
    CO_TRY(const std::size_t got, co_await file->read(piece));
    if (got == 0) break;
    blob.append(piece.data(), got);
    if (blob.size() > kMostFile) {
      co_return fail(Code::Invalid, "a file of more than {} bytes", kMostFile);
    }
  }
  CO_TRY(const guest::JobOver over, co_await file->finish());
  co_return bytes_value(blob.size());
}

asio::awaitable<Result<json::object>> PythonBroker::write_file(const BrokerRequest& request) {
  CO_TRY(const AbsolutePath path, path_of(request.payload));
  CO_TRY_VOID(check_file(plan_, path, /*is_write=*/true));
  CO_TRY_VOID(co_await refuse_links(*box_, path.text()));
  guest::StartJob job;
  job.kind = guest::JobKind::Write;
  job.path = path.text();
  const std::string data = request.data("data");
  CO_TRY(const std::unique_ptr<FileJob> file, co_await box_->start_job(std::move(job)));
  CO_TRY_VOID(co_await file->write(data));
  CO_TRY(const guest::JobOver over, co_await file->finish());
  co_return json::object{{"value", data.size()}};
}

asio::awaitable<Result<json::object>> PythonBroker::run_command(const BrokerRequest& request) {
  RunRequest run;
  const json::value* words = request.payload.if_contains("args");
  if (words == nullptr || !words->is_array() || words->as_array().empty() ||
      words->as_array().size() > kMostWords) {
    co_return fail(Code::Invalid, "'args' is a list of words");
  }
  for (const json::value& word : words->as_array()) {
    if (!word.is_string()) co_return fail(Code::Invalid, "'args' is a list of words");
    run.argv.emplace_back(word.as_string());
  }
  CO_TRY(authority::CommandName command, authority::CommandName::parse(run.argv.front()));
  std::vector<authority::CommandName> commands{std::move(command)};
  CO_TRY(authority::Subprocess wanted,
         authority::Subprocess::make(std::move(commands), authority::Shell::Refused));
  CO_TRY_VOID(check_granted(plan_, Capability(std::move(wanted)), "subprocess"));
  const auto seconds = number_at(request.payload, "timeout").value_or(60);
  run.timeout = std::chrono::seconds(std::clamp<std::int64_t>(seconds, 1, kMostSeconds));
  Collected output;
  CO_TRY(const RunResult result, co_await box_->run(std::move(run), output));
  const auto shown = [](const std::string& text) {
    std::string plain;
    for (const char c : text) plain += static_cast<unsigned char>(c) < 0x80 ? c : '?';
    return plain;
  };
  co_return json::object{{"value", json::object{{"code", result.code},
                                                {"timed_out", result.timed_out},
                                                {"stdout", shown(output.output)},
                                                {"stderr", shown(output.error)}}}};
}

asio::awaitable<Result<json::object>> PythonBroker::perform(const BrokerRequest& request,
                                                            std::string& blob) {
  const bool is_file = request.capability == "file";
  if (request.is("read_path", "read") || (is_file && request.action == "read")) {
    co_return co_await read_file(request, blob);
  }
  if (request.is("write_path", "write") || (is_file && request.action == "write")) {
    co_return co_await write_file(request);
  }
  if (request.is("subprocess", "run")) co_return co_await run_command(request);
  if (request.is("clock", "now")) {
    CO_TRY_VOID(check_granted(plan_, authority::Clock{}, "clock"));
    co_return tell_time();
  }
  if (request.is("random", "bytes")) {
    CO_TRY_VOID(check_granted(plan_, authority::Random{}, "random"));
    co_return draw_random(request.payload, blob);
  }
  if (request.is("connect", "exchange")) {
    co_return co_await exchange_bytes(*box_, plan_, request, blob);
  }
  if (request.is("secret", "hmac")) co_return sign_with_secret(plan_, request, blob);
  co_return fail(Code::Denied, "{}", cut_text(request.capability, 64));
}

asio::awaitable<BrokerAnswer> PythonBroker::execute(json::object head, PythonMessage message) {
  BrokerRequest request;
  request.capability = text_at(head, "capability");
  request.action = text_at(head, "action");
  if (json::value* payload = head.if_contains("payload"); payload && payload->is_object()) {
    request.payload = std::move(payload->as_object());
  }
  if (const auto parts = python::split_message(message.bytes, message.form)) {
    request.blobs = parts->blobs;
  }
  const auto id = head.at("id").to_number<std::uint64_t>();  // a request has one
  std::string blob;
  auto done = co_await perform(request, blob);
  BrokerAnswer answer;
  if (done) {
    answer.message = to_message(*std::move(done), id, blob);
    co_return answer;
  }
  const Error& error = done.error();
  std::string text = error.message;
  if (error.code == Code::Denied) {
    answer.denied = error.message;
    text = fmt::format("request({}, {}) is not allowed: no grant of {}", request.capability,
                       request.action, error.message);
  }
  const json::object problem = {{"type", error_type(error)}, {"message", text}};
  answer.message = to_message({{"error", problem}}, id, {});
  co_return answer;
}

}  // namespace glovebox::session
