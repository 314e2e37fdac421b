#include "session/box/box_run.h"

#include "async/co_try.h"
#include "session/box/read_buffer.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

namespace glovebox::session {
namespace {

using boost::system::error_code;

// After so much output the others on the loop get their turn.
constexpr std::size_t kOutputPerTurn = std::size_t{512} << 10;
// Once its grace is over a killed run is looked at so often, and at last the session is given up.
constexpr std::chrono::milliseconds kKillCheck{250};
constexpr int kKillPatience = 20;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

Error canceled() { return Error{Code::Os, ECANCELED, "the run was canceled"}; }

}  // namespace

asio::awaitable<Result<std::shared_ptr<LiveRun>>> BoxSession::start(RunRequest request) {
  CO_TRY(std::shared_ptr<RunState> run,
         co_await begin_run(std::move(request), RunRecord::Kind::Foreground));
  auto self = std::static_pointer_cast<BoxSession>(shared_from_this());
  co_return std::make_shared<BoxRun>(std::move(self), std::move(run));
}

asio::awaitable<Result<RunResult>> BoxSession::run_inner(RunRequest request, OutputReader& reader) {
  CO_TRY(std::shared_ptr<RunState> run,
         co_await begin_run(std::move(request), RunRecord::Kind::Inner));
  auto self = std::static_pointer_cast<BoxSession>(shared_from_this());
  BoxRun follower(std::move(self), std::move(run));
  co_return co_await follower.follow(reader);
}

asio::awaitable<Result<std::shared_ptr<RunState>>> BoxSession::begin_run(RunRequest request,
                                                                         RunRecord::Kind kind) {
  if (!is_alive()) co_return unexpected(over_error());
  const auto self = shared_from_this();
  CO_TRY(guest::StartRun start, to_start(request));
  Semaphore::Permit turn;
  if (start.mode == guest::RunMode::Shell) {
    CO_TRY(turn, co_await queue_->take(request.when_busy));
  }
  if (!is_alive()) co_return unexpected(over_error());
  const auto run = std::make_shared<RunState>(loop_, run_count_ + 1);
  run->turn = std::move(turn);
  run->record.kind = kind;
  CO_TRY_VOID(ask_for_run(run, std::move(start), request.timeout));
  CO_TRY_VOID(co_await await_begun(run));
  co_return run;
}

Result<void> BoxSession::ask_for_run(const std::shared_ptr<RunState>& run, guest::StartRun start,
                                     std::optional<std::chrono::milliseconds> timeout) {
  const bool in_shell = start.mode == guest::RunMode::Shell;
  TRY(run->id, link_->start_run(std::move(start)));
  watch_line_for_room();
  if (run->record.kind != RunRecord::Kind::Inner) ++run_count_;
  ++in_use_;
  runs_.emplace(run->id, run);
  if (in_shell) shell_run_ = run->id;
  run->record.began_at = std::chrono::system_clock::now();
  if (timeout) set_deadline(run, *timeout);
  return {};
}

asio::awaitable<Result<void>> BoxSession::await_begun(std::shared_ptr<RunState> run) {
  // Also when this coroutine is thrown out or destroyed, the run does not go on unread.
  struct Care {
    BoxSession& session;
    const std::shared_ptr<RunState>& run;
    bool is_begun = false;
    ~Care() {
      if (!is_begun) session.abandon(run);
    }
  };
  Care care{*this, run};
  while (!run->has_begun && !run->problem) {
    const Woken woken = co_await run->wakeup.wait();
    if (woken == Woken::Canceled) co_return unexpected(canceled());
  }
  if (run->problem) co_return unexpected(*run->problem);
  care.is_begun = true;
  if (settings_.on_run && run->record.kind != RunRecord::Kind::Inner) {
    settings_.on_run(run->record);
  }
  co_return Result<void>();
}

void BoxSession::set_deadline(const std::shared_ptr<RunState>& run,
                              std::chrono::milliseconds timeout) {
  run->timer.expires_after(timeout);
  run->timer.async_wait([weak = weak_from_this(), run](const error_code& problem) {
    const auto self = std::static_pointer_cast<BoxSession>(weak.lock());
    if (problem || !self || run->is_over()) return;
    run->record.timed_out = true;
    self->kill_run(run);
  });
}

void BoxSession::kill_run(const std::shared_ptr<RunState>& run) {
  if (!is_alive() || run->is_over() || std::exchange(run->is_killed, true)) return;
  const auto asked = link_->kill_run(run->id, kRunGrace);
  watch_line_for_room();
  if (!asked) return lose(EndCause::AgentBroke, {}, asked.error().message);
  run->timer.expires_after(kRunGrace + kKillCheck);
  watch_kill(run, kKillPatience);
}

// The agent kills within the grace. If it does not say so, either it waits for a reader of what the
// run has printed, and there may be none, or it is no agent any more.
void BoxSession::watch_kill(const std::shared_ptr<RunState>& run, int patience) {
  run->timer.async_wait([weak = weak_from_this(), run, patience](const error_code& problem) {
    const auto self = std::static_pointer_cast<BoxSession>(weak.lock());
    if (problem || !self || run->is_over()) return;
    if (patience == 0) {
      return self->lose(EndCause::AgentBroke, {}, "the agent did not end a run that it had to");
    }
    run->is_discarded = true;
    self->discard(run);
    run->timer.expires_after(kKillCheck);
    self->watch_kill(run, patience - 1);
  });
}

// No caller will follow the run: it is killed, and what it prints until then is thrown away.
void BoxSession::abandon(const std::shared_ptr<RunState>& run) {
  if (run->is_closed) return;
  if (run->is_over()) return close_run(run);
  run->record.canceled = true;
  run->is_discarded = true;
  kill_run(run);
  discard(run);
}

void BoxSession::discard(const std::shared_ptr<RunState>& run) {
  for (std::string& printed : run->printed) {
    (void)count_output(run, std::exchange(printed, {}).size());
  }
  ReadBuffer buffer;
  const auto again = [weak = weak_from_this(), run] {
    const auto self = std::static_pointer_cast<BoxSession>(weak.lock());
    if (self && run->is_discarded && !run->is_closed) self->discard(run);
  };
  for (ReadyFd* stream : {&run->output, &run->error}) {
    const ReadyFd::Moved moved = stream->read(buffer.span());
    (void)count_output(run, moved.bytes);
    if (moved.step != ReadyFd::Step::Ended && !run->is_over()) stream->when_readable(again);
  }
  // The coroutine that follows it, if there is one, records its end.
  if (run->is_over() && run->record.canceled) close_run(run);
  if (run->is_over()) run->wake();
}

// The last thing that happens to a run.
void BoxSession::close_run(const std::shared_ptr<RunState>& run) {
  if (std::exchange(run->is_closed, true)) return;
  run->output.close();
  run->error.close();
  run->input.close();
  --in_use_;
  last_use_ = std::chrono::steady_clock::now();
  run->record.ended_at = std::chrono::system_clock::now();
  if (run->result) run->record.code = run->result->code;
  if (run->problem) run->record.problem = run->problem->message;
  // One that was refused has never begun, as far as callers were told.
  const bool is_told = run->has_begun && run->record.kind != RunRecord::Kind::Inner;
  if (is_told && settings_.on_run) settings_.on_run(run->record);
}

std::size_t BoxSession::count_output(const std::shared_ptr<RunState>& run, std::size_t bytes) {
  const std::uint64_t most = settings_.watch.output_bytes.value_or(kNoLimit);
  const std::uint64_t left = most - std::min(most, output_bytes_);
  run->record.output_bytes += bytes;
  output_bytes_ += bytes;
  if (bytes <= left) return bytes;
  lose(EndCause::Limit, launch::LimitKind::Output, {});
  return left;
}

Result<void> BoxSession::signal_shell_run(int signal) {
  if (!is_alive() || shell_run_ == guest::kSessionId)
    return fail(Code::NotFound, "no run has the shell");
  return link_->signal_run(shell_run_, signal);
}

asio::awaitable<Result<void>> BoxRun::pass_printed(OutputReader& reader) {
  for (const auto stream : {guest::Stream::Output, guest::Stream::Error}) {
    std::string& printed = run_->printed.at(stream == guest::Stream::Output ? 0 : 1);
    std::string bytes = std::exchange(printed, {});
    bytes.resize(session_->count_output(run_, bytes.size()));
    if (!bytes.empty()) CO_TRY_VOID(co_await reader.take(stream, bytes));
  }
  co_return Result<void>();
}

asio::awaitable<Result<bool>> BoxRun::pass_output(OutputReader& reader, std::span<char> buffer) {
  bool was_any = false;
  const std::array<std::pair<guest::Stream, ReadyFd*>, 2> streams{
      {{guest::Stream::Output, &run_->output}, {guest::Stream::Error, &run_->error}}};
  for (const auto& [stream, fd] : streams) {
    if (!*fd) continue;
    const ReadyFd::Moved moved = fd->fill(buffer);
    if (moved.step == ReadyFd::Step::Waiting && !run_->is_over()) {
      fd->when_readable([run = run_] { run->wakeup.notify(); });
    }
    if (moved.step != ReadyFd::Step::Moved) continue;
    was_any = true;
    const std::string_view bytes(buffer.data(), session_->count_output(run_, moved.bytes));
    if (!bytes.empty()) CO_TRY_VOID(co_await reader.take(stream, bytes));
  }
  co_return was_any;
}

asio::awaitable<Result<RunResult>> BoxRun::follow(OutputReader& reader) {
  // Whatever ends this, a run that is not over is not left to itself.
  struct Care {
    BoxRun& run;
    ~Care() { run.session_->abandon(run.run_); }
  };
  const Care care{*this};
  CO_TRY_VOID(co_await pass_printed(reader));
  ReadBuffer buffer;
  std::uint64_t turn_ends = run_->record.output_bytes + kOutputPerTurn;
  while (true) {
    // Looked at before the pipes are: what a run printed is in them when it is over.
    const bool is_over = run_->is_over();
    CO_TRY(const bool was_any, co_await pass_output(reader, buffer.span()));
    if (run_->record.output_bytes >= turn_ends) {
      co_await asio::post(session_->loop_, asio::use_awaitable);
      turn_ends = run_->record.output_bytes + kOutputPerTurn;
    }
    if (was_any) continue;
    if (is_over) break;
    const Woken woken = co_await run_->wakeup.wait();
    if (woken == Woken::Canceled) co_return unexpected(canceled());
  }
  session_->close_run(run_);
  if (run_->problem) co_return unexpected(*run_->problem);
  co_return *run_->result;
}

asio::awaitable<Result<void>> BoxRun::write_input(std::string_view bytes) {
  while (!bytes.empty()) {
    const ReadyFd::Moved moved = run_->input.write(bytes);
    if (moved.step == ReadyFd::Step::Ended || run_->is_over()) {
      co_return unexpected(Error{Code::Os, EPIPE, "the run reads no more input"});
    }
    bytes.remove_prefix(moved.bytes);
    if (moved.step == ReadyFd::Step::Moved) continue;
    run_->input.when_writable([run = run_] { run->input_wakeup.notify(); });
    const Woken woken = co_await run_->input_wakeup.wait();
    if (woken == Woken::Canceled) co_return unexpected(canceled());
  }
  co_return Result<void>();
}

Result<void> BoxRun::resize(plan::TerminalSize size) {
  if (run_->is_over()) return fail(Code::NotFound, "the run is over");
  auto asked = session_->link_->resize(run_->id, size.rows, size.columns);
  session_->watch_line_for_room();
  return asked;
}

Result<void> BoxRun::signal(int signal) {
  if (run_->is_over()) return fail(Code::NotFound, "the run is over");
  auto asked = session_->link_->signal_run(run_->id, signal);
  session_->watch_line_for_room();
  return asked;
}

void BoxRun::cancel() {
  if (run_->is_over()) return;
  run_->record.canceled = true;
  session_->kill_run(run_);
}

}  // namespace glovebox::session
