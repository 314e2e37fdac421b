#include "session/python/python_connect.h"

#include "async/co_try.h"

#include <algorithm>
#include <cerrno>

namespace glovebox::session {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMostBytes = std::int64_t{8} << 20;
constexpr std::int64_t kUsualBytes = std::int64_t{64} << 10;
constexpr std::int64_t kMostSeconds = 3600;
constexpr std::int64_t kUsualSeconds = 30;
constexpr std::size_t kMostHost = 255;
// The program keeps the time itself; this is for one that does not.
constexpr std::chrono::seconds kSlack{5};
constexpr std::size_t kMostWords = 400;

// How the program ends (below).
constexpr int kEnded = 0;
constexpr int kStopped = 4;
constexpr int kFailed = 5;
constexpr int kRefused = 13;
constexpr int kTooLate = 110;

// Runs in the box, with the interpreter that is there anyway. It is no wall.
constexpr std::string_view kProgram = R"(
import errno, os, sys, time
import socket
host, port, most, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
data = sys.stdin.buffer.read()
end = time.monotonic() + seconds
def left(): return max(end - time.monotonic(), 0.001)
try:
    line = socket.create_connection((host, port), left())
except TimeoutError:
    os._exit(110)
except OSError as problem:
    sys.stderr.write(str(problem))
    sys.stderr.flush()
    os._exit(13 if problem.errno in (errno.EACCES, errno.EPERM) else 5)
got, code = 0, 4
try:
    line.settimeout(left())
    line.sendall(data)
    while got < most:
        line.settimeout(left())
        piece = line.recv(min(65536, most - got))
        if not piece:
            code = 0
            break
        got += len(piece)
        sys.stdout.buffer.write(piece)
except TimeoutError:
    pass
except OSError as problem:
    if got == 0:
        sys.stderr.write(str(problem))
        sys.stderr.flush()
        os._exit(5)
sys.stdout.buffer.flush()
os._exit(code)
)";

struct Target {
  std::string host;
  std::int64_t port = 0;
};

// A plain host, no pattern and no network, that the authority lets this cell connect to.
Result<Target> find_target(const PythonPlan& plan, const json::object& payload) {
  Target target{text_at(payload, "host"), number_at(payload, "port").value_or(0)};
  const bool is_plain = std::ranges::all_of(target.host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':';
  });
  if (target.host.empty() || target.host.size() > kMostHost || !is_plain ||
      target.host.starts_with('-')) {
    return fail(Code::Invalid, "'host' is a name or an address");
  }
  if (target.port < 1 || target.port > 65535) {
    return fail(Code::Invalid, "'port' is a number from 1 to 65535");
  }
  const bool is_ipv6 = target.host.find(':') != std::string::npos;
  const std::string text =
      fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", target.host, is_ipv6 ? "]" : "", target.port);
  TRY(authority::ConnectTCP use, authority::ConnectTCP::parse(text));
  TRY_VOID(check_granted(plan, authority::Capability(std::move(use)), "connect_tcp"));
  return target;
}

class Collected final : public OutputReader {
 public:
  explicit Collected(std::size_t most) : most_(most) {}
  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
    if (stream == guest::Stream::Error) {
      words += bytes.substr(0, kMostWords - std::min(kMostWords, words.size()));
    } else if (data.size() + bytes.size() > most_) {
      co_return fail(Code::Exhausted, "more came back than was asked for");
    } else {
      data += bytes;
    }
    co_return Result<void>();
  }
  std::string data;
  std::string words;

 private:
  std::size_t most_;
};

Result<json::object> to_answer(const RunResult& result, const Collected& collected) {
  switch (result.code) {
    case kEnded:
    case kStopped:
      return json::object{{"value",
                           {{"data", {{"$bytes", json::array{0, collected.data.size()}}}},
                            {"ended", result.code == kEnded}}}};
    case kRefused: return fail(Code::Denied, "connect_tcp");
    case kTooLate: return unexpected(Error{Code::Os, ETIMEDOUT, "no connection in time"});
    case kFailed: {
      std::string words;
      for (const char c : collected.words) words += c >= ' ' && c <= '~' ? c : '?';
      return fail(Code::Os, "{}", words);
    }
    default: break;
  }
  if (result.timed_out) return unexpected(Error{Code::Os, ETIMEDOUT, "no answer in time"});
  return fail(Code::Os, "the connection could not be made: status {}", result.code);
}

}  // namespace

asio::awaitable<Result<json::object>> exchange_bytes(LiveSession& box, const PythonPlan& plan,
                                                     const BrokerRequest& request,
                                                     std::string& blob) {
  CO_TRY(const Target target, find_target(plan, request.payload));
  const std::int64_t most = std::clamp<std::int64_t>(
      number_at(request.payload, "most").value_or(kUsualBytes), 0, kMostBytes);
  const std::int64_t seconds = std::clamp<std::int64_t>(
      number_at(request.payload, "timeout").value_or(kUsualSeconds), 1, kMostSeconds);
  const std::string data = request.data("data");
  if (data.size() > static_cast<std::size_t>(kMostBytes)) {
    co_return fail(Code::Invalid, "'data' has at most {} bytes", kMostBytes);
  }
  RunRequest run;
  run.argv = {plan.interpreter, "-I", "-S", "-c", std::string(kProgram), target.host};
  for (const std::int64_t number : {target.port, most, seconds}) {
    run.argv.push_back(std::to_string(number));
  }
  run.input = guest::RunInput::Streamed;
  run.timeout = std::chrono::seconds(seconds) + kSlack;
  CO_TRY(const std::shared_ptr<LiveRun> started, co_await box.start(std::move(run)));
  // One that reads no more has ended, and says how.
  (void)co_await started->write_input(data);
  started->end_input();
  Collected collected(static_cast<std::size_t>(most));
  CO_TRY(const RunResult result, co_await started->follow(collected));
  CO_TRY(json::object answer, to_answer(result, collected));
  blob = std::move(collected.data);
  co_return answer;
}

}  // namespace glovebox::session
