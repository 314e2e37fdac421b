// Sessions that begin where this one is, and this one as a file.
#include "async/co_try.h"
#include "mcp/repl/repl.h"

namespace glovebox::mcp {

Result<void> Repl::check_quiet(const CallSandbox& sandbox) const {
  if (sandbox.state != CallSandbox::State::Known) {
    return fail(Code::Denied, "{}", sandbox.problem);
  }
  if (is_starting_ || state_ == State::Running || state_ == State::Waiting) {
    return fail(Code::Exhausted, "the session is busy");
  }
  if (state_ == State::None || !box_)
    return fail(Code::NotFound, "the session has not been started");
  if (!boxes_.has_sandbox(*box_, sandbox.profile)) {
    return fail(Code::Denied,
                "the sandbox of this call is not the one that the session was started under");
  }
  return {};
}

asio::awaitable<Result<std::vector<std::unique_ptr<Box>>>> Repl::fork(
    CallSandbox sandbox, std::size_t count, session::WhileRunning running) {
  notice_death();
  CO_TRY_VOID(check_quiet(sandbox));
  is_starting_ = true;
  is_renewing_ = true;
  std::string id = box_->id;
  auto forked = co_await boxes_.fork(*box_, count, running);
  auto gone_on = co_await take_up_renewal(std::move(id));
  is_starting_ = false;
  notify();
  if (!forked && forked.error().code == Code::Exhausted && language_ == Language::Python &&
      running == session::WhileRunning::Refuse) {
    co_return fail(Code::Exhausted,
                   "the session has written files, so a fork gives it a fresh box, and the "
                   "interpreter with all its names ends; say \"force\": true if that may be ({})",
                   forked.error().message);
  }
  if (!forked || gone_on) co_return forked;
  for (std::unique_ptr<Box>& box : *forked) co_await boxes_.end(std::move(box));
  co_return tl::unexpected(std::move(gone_on).error());
}

// Meanwhile another call may have ended the session, or started another: then nothing is to do.
asio::awaitable<Result<void>> Repl::take_up_renewal(std::string id) {
  is_renewing_ = false;
  const std::optional<std::string> end = std::exchange(end_while_renewing_, std::nullopt);
  if (!box_ || box_->id != id) co_return Result<void>();
  const auto is_fresh = boxes_.refresh(*box_);
  if (!is_fresh) {
    co_await drop_box();
    co_return tl::unexpected(is_fresh.error());
  }
  if (!*is_fresh) {
    if (end) on_end(*end);
    co_return Result<void>();
  }
  worker_->close();
  co_return co_await start_worker();
}

asio::awaitable<Result<std::uint64_t>> Repl::checkpoint(CallSandbox sandbox, std::string name) {
  notice_death();
  CO_TRY_VOID(check_quiet(sandbox));
  is_starting_ = true;
  const auto written = co_await boxes_.checkpoint(*box_, std::move(name));
  is_starting_ = false;
  notify();
  co_return written;
}

asio::awaitable<Result<void>> Repl::adopt(std::unique_ptr<Box> box) {
  GLOVEBOX_CHECK(!box_ && state_ == State::None && !is_starting_);
  is_starting_ = true;
  box_ = std::move(box);
  auto started = co_await start_worker();
  is_starting_ = false;
  notify();
  co_return started;
}

}  // namespace glovebox::mcp
