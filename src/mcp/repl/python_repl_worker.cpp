// Python: one process in the box, which executes cells as they come.
#include "async/event.h"
#include "async/task_group.h"
#include "mcp/repl/worker.h"
#include "python/channel/python_message.h"

#include <boost/asio/steady_timer.hpp>

namespace glovebox::mcp {
namespace {

// Starts the first interpreter that works. Those of virtual environments may be broken links or for
// another machine, so a path is tried; a bare name is looked up.
constexpr const char* kStarter =
    R"(boot=$1 source=$2; shift 2
while [ $# -gt 1 ]; do
  case $1 in
    */*) "$1" -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 && break ;;
    *) command -v "$1" >/dev/null && break ;;
  esac
  shift
done
exec "$1" -u -c "$boot" "$source")";
constexpr const char* kBoot =
    "import sys; exec(compile(sys.argv.pop(), '<glovebox>', 'exec'), {'__name__': 'glovebox'})";

using python::Order;
using python::ReplWord;

// worker.py has none of the protocol's numbers: these lines come before it.
std::string worker_program() {
  const auto number = [](auto kind) { return static_cast<unsigned>(kind); };
  return fmt::format(
      "HEADER = {}; MOST_TEXT = {}; MOST_IMAGE = {}\n"
      "CODE = {}; INPUT = {}; INTERRUPT = {}; QUIT = {}\n"
      "READY = {}; OVER = {}; OUTPUT = {}; ERROR = {}; IMAGE = {}; INPUT_WAIT = {}; BYE = {}\n{}",
      python::kHeaderSize, python::kMaxReplText, python::kMaxReplImage, number(Order::Operation),
      number(Order::Post), number(Order::Cancel), number(Order::End), number(ReplWord::Ready),
      number(ReplWord::Over), number(ReplWord::Output), number(ReplWord::Error),
      number(ReplWord::Image), number(ReplWord::InputWait), number(ReplWord::Bye),
      python_worker_source());
}

// So long an interpreter may take to say its first word.
constexpr std::chrono::seconds kPatience{60};

class PythonWorker final : public Worker, public std::enable_shared_from_this<PythonWorker> {
 public:
  PythonWorker(asio::io_context& loop, std::shared_ptr<session::LiveSession> box,
               WorkerEvents events, std::vector<std::string> interpreters)
      : loop_(loop),
        box_(std::move(box)),
        events_(std::move(events)),
        interpreters_(std::move(interpreters)),
        started_(loop),
        patience_(loop) {}

  asio::awaitable<Result<void>> start() override {
    session::RunRequest request;
    request.argv = {"/bin/sh", "-c", kStarter, "sh", kBoot, worker_program()};
    for (const std::string& each : interpreters_) request.argv.push_back(each);
    request.input = guest::RunInput::Streamed;
    auto run = co_await box_->start(std::move(request));
    if (!run) co_return tl::unexpected(std::move(run).error());
    run_ = *std::move(run);
    session::spawn_owning(loop_.get_executor(), follow(shared_from_this()));
    patience_.expires_after(kPatience);
    patience_.async_wait([self = shared_from_this()](const boost::system::error_code& problem) {
      if (!problem && !self->is_ready_) self->run_->cancel();
    });
    while (!is_ready_ && !is_over_) {
      if (co_await started_.wait() == session::Woken::Canceled) break;
    }
    patience_.cancel();
    if (is_ready_) co_return Result<void>();
    co_return fail(Code::NotFound, "no Python could be started in the box, where {} {} tried{}{}",
                   fmt::join(interpreters_, ", "), interpreters_.size() == 1 ? "was" : "were",
                   first_words_.empty() ? "" : ": ", first_words_);
  }

  asio::awaitable<Result<void>> run(std::string code) override {
    co_return co_await send(Order::Operation, std::move(code));
  }
  asio::awaitable<Result<void>> send_input(std::string text) override {
    co_return co_await send(Order::Post, std::move(text));
  }
  void interrupt() override {
    session::spawn_owning(loop_.get_executor(), tell(shared_from_this(), Order::Cancel));
  }
  asio::awaitable<void> ask_to_end() override { co_await tell(shared_from_this(), Order::End); }
  void close() override { is_closed_ = true; }

 private:
  struct Reader final : session::OutputReader {
    explicit Reader(PythonWorker& worker_) : worker(worker_) {}
    asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
      if (stream == guest::Stream::Error) {
        worker.take_stray(bytes);
        co_return Result<void>();
      }
      co_return worker.take_frames(bytes);
    }
    PythonWorker& worker;
  };

  asio::awaitable<Result<void>> send(Order order, std::string payload) {
    if (is_over_) co_return fail(Code::Os, "the interpreter has ended");
    if (payload.size() > python::kMaxMessage) {
      co_return fail(Code::Invalid, "the interpreter takes at most {} bytes", python::kMaxMessage);
    }
    outbox_ += session::encode_order(order, /*cell=*/0,
                                     {session::PythonMessage::Form::Text, std::move(payload)});
    if (is_sending_) co_return Result<void>();  // the coroutine that sends goes on with this
    is_sending_ = true;
    Result<void> sent;
    while (sent && !outbox_.empty()) {
      const std::string frames = std::exchange(outbox_, {});
      sent = co_await run_->write_input(frames);
    }
    is_sending_ = false;
    co_return sent;
  }

  static asio::awaitable<void> tell(std::shared_ptr<PythonWorker> self, Order order) {
    // One that cannot be told any more is ending, and that is reported by itself.
    std::string nothing;
    (void)co_await self->send(order, std::move(nothing));
  }

  static asio::awaitable<void> follow(std::shared_ptr<PythonWorker> self) {
    Reader reader(*self);
    const auto result = co_await self->run_->follow(reader);
    const std::string how = result
                                ? fmt::format("[repl] worker exited with status {}\n", result->code)
                                : fmt::format("[repl] {}\n", result.error().message);
    self->finish(how);
  }

  // Before the first frame, words on the error output say why there is no interpreter. Later they
  // would be the pump's own, which has none.
  void take_stray(std::string_view bytes) {
    if (!is_ready_) first_words_ += bytes.substr(0, 500);
    if (is_ready_ && !is_closed_) events_.on_text(TextStream::Error, bytes);
  }

  Result<void> take_frames(std::string_view bytes) {
    frames_.feed(bytes);
    while (!is_over_) {
      TRY(const std::optional<session::ReplFrame> frame, frames_.next());
      if (!frame) return {};
      take_frame(*frame);
    }
    return {};
  }

  void take_frame(const session::ReplFrame& frame) {
    if (is_closed_ && frame.word != ReplWord::Over) return;
    const std::string& payload = frame.message.bytes;
    switch (frame.word) {
      case ReplWord::Output: return events_.on_text(TextStream::Output, payload);
      case ReplWord::Error: return events_.on_text(TextStream::Error, payload);
      case ReplWord::Image: return events_.on_image(payload);
      case ReplWord::InputWait: return events_.on_input_wait(payload);
      case ReplWord::Bye: says_bye_ = true; return;
      case ReplWord::Ready: return take_ready();
      case ReplWord::Over: return finish(end_notice(payload));
    }
  }

  void take_ready() {
    if (is_ready_) return events_.on_ready();
    is_ready_ = true;
    started_.notify();
  }

  static std::string end_notice(std::string_view how) {
    if (how == "exit 0") return "[repl] session ended\n";
    const std::size_t space = how.find(' ');
    const bool is_signal = how.substr(0, space) == "signal";
    std::string number;
    for (const char each : how.substr(space == std::string_view::npos ? how.size() : space + 1)) {
      if (each >= '0' && each <= '9') number += each;
    }
    return fmt::format("[repl] worker exited with {} {}\n", is_signal ? "signal" : "status",
                       number);
  }

  void finish(const std::string& how) {
    if (is_over_) return;
    is_over_ = true;
    started_.notify();
    if (!is_closed_ && is_ready_) events_.on_end(says_bye_ ? "[repl] session ended\n" : how);
  }

  asio::io_context& loop_;
  std::shared_ptr<session::LiveSession> box_;
  WorkerEvents events_;
  std::vector<std::string> interpreters_;
  session::Wakeup started_;
  asio::steady_timer patience_;
  std::shared_ptr<session::LiveRun> run_;
  session::ReplFrameReader frames_;
  std::string outbox_;
  bool is_sending_ = false;
  std::string first_words_;
  bool is_ready_ = false;
  bool says_bye_ = false;
  bool is_over_ = false;
  bool is_closed_ = false;
};

}  // namespace

std::shared_ptr<Worker> make_python_worker(asio::io_context& loop,
                                           std::shared_ptr<session::LiveSession> box,
                                           WorkerEvents events,
                                           std::vector<std::string> interpreters) {
  return std::make_shared<PythonWorker>(loop, std::move(box), std::move(events),
                                        std::move(interpreters));
}

}  // namespace glovebox::mcp
