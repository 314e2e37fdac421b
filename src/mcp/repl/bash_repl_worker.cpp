// Bash: each piece of code is a run of the session's persistent shell.

#include "async/task_group.h"
#include "mcp/repl/worker.h"

#include <csignal>

namespace glovebox::mcp {
namespace {

class BashWorker final : public Worker, public std::enable_shared_from_this<BashWorker> {
 public:
  BashWorker(asio::io_context& loop, std::shared_ptr<session::LiveSession> box, WorkerEvents events)
      : loop_(loop), box_(std::move(box)), events_(std::move(events)) {}

  asio::awaitable<Result<void>> start() override {
    if (box_->shell() == guest::ShellKind::None) {
      co_return fail(Code::NotFound, "the box has no shell");
    }
    co_return Result<void>();
  }

  asio::awaitable<Result<void>> run(std::string code) override {
    session::spawn_owning(loop_.get_executor(), follow(shared_from_this(), std::move(code)));
    co_return Result<void>();
  }

  asio::awaitable<Result<void>> send_input(std::string /*text*/) override {
    co_return fail(Code::Unsupported, "bash code has no standard input here");
  }

  void interrupt() override {
    (void)box_->signal_shell_run(SIGINT);  // nothing runs: nothing to interrupt
  }

  asio::awaitable<void> ask_to_end() override { co_return; }
  void close() override { is_closed_ = true; }

 private:
  struct Reader final : session::OutputReader {
    explicit Reader(BashWorker& worker_) : worker(worker_) {}
    asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
      const bool is_error = stream == guest::Stream::Error;
      if (!worker.is_closed_) {
        worker.events_.on_text(is_error ? TextStream::Error : TextStream::Output, bytes);
      }
      co_return Result<void>();
    }
    BashWorker& worker;
  };

  static asio::awaitable<void> follow(std::shared_ptr<BashWorker> self, std::string code) {
    session::RunRequest request;
    request.code = std::move(code);
    request.when_busy = session::WhenBusy::Wait;
    Reader reader(*self);
    const auto result = co_await self->box_->run(std::move(request), reader);
    if (self->is_closed_) co_return;
    if (!result) {
      self->events_.on_end(fmt::format("[repl] {}\n", result.error().message));
    } else if (result->shell == guest::ShellState::Fresh) {
      self->events_.on_end("[repl] session ended\n");
    } else {
      self->events_.on_ready();
    }
  }

  asio::io_context& loop_;
  std::shared_ptr<session::LiveSession> box_;
  WorkerEvents events_;
  bool is_closed_ = false;
};

}  // namespace

std::shared_ptr<Worker> make_bash_worker(asio::io_context& loop,
                                         std::shared_ptr<session::LiveSession> box,
                                         WorkerEvents events) {
  return std::make_shared<BashWorker>(loop, std::move(box), std::move(events));
}

Result<Language> parse_language(std::string_view text) {
  if (text == "bash") return Language::Bash;
  if (text == "python") return Language::Python;
  return fail(Code::Invalid, "--interpreter {}: there are python and bash", text);
}

std::string_view to_text(Language language) {
  return language == Language::Bash ? "bash" : "python";
}

}  // namespace glovebox::mcp
