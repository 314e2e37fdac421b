#include "session/python/python_worker.h"

#include "async/co_try.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <csignal>

namespace glovebox::session {
namespace {

constexpr std::size_t kMostFirstWords = 2000;
constexpr std::size_t kFrameCost = 64;  // what holding a frame takes beside its bytes

}  // namespace

class PythonWorker::Reader final : public OutputReader {
 public:
  explicit Reader(PythonWorker& worker) : worker_(worker) {}
  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
    if (stream == guest::Stream::Output) co_return co_await worker_.take(bytes);
    worker_.take_stray(bytes);
    co_return Result<void>();
  }

 private:
  PythonWorker& worker_;
};

PythonWorker::PythonWorker(asio::io_context& loop, asio::thread_pool& pool,
                           std::shared_ptr<LiveSession> box)
    : loop_(loop), pool_(pool), box_(std::move(box)), started_(loop), patience_(loop) {}

asio::awaitable<Result<void>> PythonWorker::start(std::vector<std::string> command) {
  RunRequest request;
  request.argv = std::move(command);
  request.input = guest::RunInput::Streamed;
  CO_TRY(run_, co_await box_->start(std::move(request)));
  asio::co_spawn(loop_, follow(shared_from_this()), asio::detached);
  patience_.expires_after(kStartTimeout);
  patience_.async_wait([weak = weak_from_this()](const boost::system::error_code& problem) {
    const auto self = weak.lock();
    if (!problem && self && !self->is_ready_) self->kill();
  });
  while (!is_ready_ && !is_over_) {
    const Woken woken = co_await started_.wait();
    if (woken == Woken::Canceled) kill();
  }
  patience_.cancel();
  if (is_ready_) co_return Result<void>();
  co_return fail(Code::Invalid, "the interpreter could not be started in the box: {}",
                 first_words_.empty() ? "it said nothing" : first_words_);
}

asio::awaitable<void> PythonWorker::follow(std::shared_ptr<PythonWorker> self) {
  Reader reader(*self);
  const auto result = co_await self->run_->follow(reader);
  PythonExit exit;
  if (result) {
    exit.code = result->code;
  } else {
    exit.sentence = result.error().message;
  }
  self->finish(exit);
}

void PythonWorker::finish(const PythonExit& exit) {
  if (std::exchange(is_over_, true)) return;
  started_.notify();
  outbox_.clear();
  if (!culprit_) culprit_ = only_suspect();
  for (const auto& [number, cell] : std::exchange(cells_, {})) {
    if (const auto there = cell.lock()) there->worker_over(exit);
  }
}

// An interpreter dies of what its code does. Of several that were at it, none is blamed.
std::optional<std::uint32_t> PythonWorker::only_suspect() const {
  std::optional<std::uint32_t> found;
  for (const auto& [number, cell] : cells_) {
    const auto there = cell.lock();
    if (!there || (!holds_one() && !there->is_busy())) continue;
    if (found) return std::nullopt;
    found = number;
  }
  return found;
}

void PythonWorker::blame(std::uint32_t cell) {
  if (!culprit_) culprit_ = cell;
  retire();
}

void PythonWorker::kill() {
  retire();
  if (!run_ || is_over_) return;
  (void)run_->signal(SIGKILL);  // one that cannot be told is ending
  run_->cancel();
}

Result<void> PythonWorker::send(PythonOrder order, std::uint32_t cell,
                                const PythonMessage& message) {
  if (is_over_) return fail(Code::Os, "the interpreter has ended");
  if (outbox_bytes_ + message.bytes.size() + kFrameCost > kMaxOutbox) {
    return fail(Code::Exhausted, "more is waiting for the interpreter than {} bytes", kMaxOutbox);
  }
  outbox_.push_back(encode_order(order, cell, message));
  outbox_bytes_ += outbox_.back().size() + kFrameCost;
  if (!std::exchange(is_writing_, true)) {
    asio::co_spawn(loop_, write(shared_from_this()), asio::detached);
  }
  return {};
}

asio::awaitable<void> PythonWorker::write(std::shared_ptr<PythonWorker> self) {
  while (!self->outbox_.empty() && !self->is_over_) {
    const std::string frame = std::move(self->outbox_.front());
    self->outbox_.pop_front();
    // One that cannot be told any more is ending, and follow() sees how.
    const auto written = co_await self->run_->write_input(frame);
    self->outbox_bytes_ -= std::min(self->outbox_bytes_, frame.size() + kFrameCost);
    if (!written) break;
  }
  self->is_writing_ = false;
}

void PythonWorker::take_stray(std::string_view text) {
  if (!is_ready_) {
    first_words_ +=
        text.substr(0, kMostFirstWords - std::min(kMostFirstWords, first_words_.size()));
    return;
  }
  for (const auto& [number, cell] : cells_) {
    if (const auto there = cell.lock()) there->take_stray(text);
  }
}

asio::awaitable<Result<void>> PythonWorker::take(std::string_view bytes) {
  frames_.feed(bytes);
  while (!is_over_) {
    CO_TRY(std::optional<PythonFrame> frame, frames_.next());
    if (!frame) break;
    // No host sends so long a request: it is not even read.
    Result<PythonHead> head = fail(Code::Invalid, "the interpreter sent too long a request");
    const bool is_read =
        frame->word != PythonWord::Request || json_size(frame->message) <= python::kMaxRequestJson;
    if (is_read) head = co_await read_head_aside(pool_, frame->message);
    CO_TRY_VOID(take_frame(*std::move(frame), std::move(head)));
  }
  co_return Result<void>();
}

// What it says of itself it says before any code of a cell's has run.
Result<void> PythonWorker::take_ready(Result<PythonHead> head) {
  if (is_ready_) return fail(Code::Invalid, "the interpreter was ready twice");
  TRY(const PythonHead said, std::move(head));
  const boost::json::value* version = said.members.if_contains("python");
  if (version != nullptr && version->is_string()) {
    version_ = std::string(version->as_string()).substr(0, 32);
  }
  const boost::json::value* cells = said.members.if_contains("cells");
  if (cells != nullptr && cells->is_int64() && cells->as_int64() > 1) {
    most_cells_ =
        static_cast<std::uint32_t>(std::min<std::int64_t>(cells->as_int64(), python::kMaxCells));
  }
  is_ready_ = true;
  started_.notify();
  return {};
}

Result<void> PythonWorker::take_frame(PythonFrame frame, Result<PythonHead> head) {
  if (frame.word == PythonWord::Ready) return take_ready(std::move(head));
  if (frame.word == PythonWord::Over && head) {
    const boost::json::value* reason = head->members.if_contains("reason");
    if (reason != nullptr && reason->is_string() && reason->as_string() == "crash") {
      blame(frame.cell);
    }
  }
  const auto found = cells_.find(frame.cell);
  const auto cell = found == cells_.end() ? nullptr : found->second.lock();
  if (cell) cell->take(frame.word, std::move(frame.message), std::move(head));
  return {};
}

}  // namespace glovebox::session
