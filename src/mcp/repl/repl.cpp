#include "mcp/repl/repl.h"

#include "async/task_group.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

// Code that is about to end when a call comes in is waited for so long.
constexpr milliseconds kSettle{25};
// So long a worker may take to end by itself when the session is restarted.
constexpr milliseconds kGrace{500};
constexpr milliseconds kProgressPeriod{1000};
// So long a box that was killed may take until it is known why.
constexpr milliseconds kLastWord{2000};

constexpr std::string_view kIdle = "<<repl status: idle>>";
constexpr std::string_view kWaiting = "<<repl status: waiting for input>>";
constexpr std::string_view kDiscarded = "[repl] input discarded while worker busy";
constexpr std::string_view kRestarted = "[repl] new session started";
constexpr std::string_view kNotWaiting = "\n[repl] no longer waiting for input\n";
constexpr std::string_view kMissed =
    "[repl] input discarded: the code that asked for it no longer waits";
constexpr std::string_view kRestartedMeanwhile =
    "[repl] input discarded: the session was restarted while the call waited for its turn";
constexpr std::string_view kAskedMeanwhile =
    "[repl] input discarded: the code of the call before waits for input, and this was no answer";

void append(json::array& to, json::array items) { to.insert(to.end(), items.begin(), items.end()); }

}  // namespace

ToolReply error_reply(std::string_view sentence) {
  ToolReply reply;
  reply.is_error = true;
  reply.content.push_back(text_item(sentence));
  return reply;
}

ToolReply text_reply(std::string_view text) {
  ToolReply reply;
  reply.content.push_back(text_item(text));
  return reply;
}

milliseconds effective_wait(milliseconds timeout) {
  if (timeout < milliseconds(2000)) return timeout;
  return timeout - std::clamp(timeout / 20, milliseconds(200), milliseconds(2000));
}

class Repl::Place {
 public:
  explicit Place(Repl& repl) : repl_(repl), number_(++repl.last_place_) {
    repl_.line_.push_back(number_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    std::erase(repl_.line_, number_);
    repl_.notify();
  }
  bool is_first() const { return repl_.line_.front() == number_; }

 private:
  Repl& repl_;
  std::uint64_t number_;
};

Phase Repl::phase() const {
  if (has_told_prompt_ && state_ != State::Waiting) return Phase::Missed;
  if (ended_) return Phase::Ended;
  switch (state_) {
    case State::None: return Phase::None;
    case State::Idle: return has_untold_end_ ? Phase::Settled : Phase::Idle;
    case State::Running: return Phase::Pending;
    case State::Waiting: return Phase::Waiting;
  }
  return Phase::None;
}

WorkerEvents Repl::make_events() {
  WorkerEvents events;
  events.on_text = [this](TextStream stream, std::string_view bytes) {
    log_.add_text(stream, bytes);
  };
  events.on_image = [this](std::string png) { log_.add_image(std::move(png)); };
  events.on_ready = [this] {
    if (state_ == State::None) return;
    if (state_ == State::Waiting) log_.add_text(TextStream::Output, kNotWaiting);
    has_untold_end_ = state_ != State::Idle;
    state_ = State::Idle;
    notify();
  };
  events.on_input_wait = [this](const std::string& prompt) {
    if (state_ != State::Running) return;
    state_ = State::Waiting;
    has_empty_prompt_ = prompt.empty();
    log_.add_text(TextStream::Output, prompt);
    notify();
  };
  events.on_end = [this](std::string notice) { on_end(std::move(notice)); };
  return events;
}

std::optional<std::string> Repl::guardrail_notice() const {
  if (!box_) return std::nullopt;
  const auto& end = box_->live->end();
  if (!end || end->limit != launch::LimitKind::Memory) return std::nullopt;
  return fmt::format("[repl] worker killed by memory guardrail: rss={}\n{}\n", box_->memory_limit,
                     state_ == State::Idle
                         ? "[repl] worker was idle; new session started"
                         : "[repl] previous request aborted; retry your last input");
}

void Repl::on_end(std::string notice) {
  if (state_ == State::None) return;
  if (is_renewing_) {
    end_while_renewing_ = std::move(notice);
    return;
  }
  const bool was_idle = state_ == State::Idle && !has_untold_end_;
  const auto guardrail = guardrail_notice();
  if (guardrail) notice = *guardrail;
  state_ = State::None;
  // No call waits for the end of an idle session: the next one tells of it.
  if (guardrail && was_idle) {
    idle_notice_ = std::move(notice);
  } else {
    ended_ = std::move(notice);
  }
  has_untold_end_ = false;
  notify();
  session::spawn_owning(loop_.get_executor(), drop_later(shared_from_this()));
}

void Repl::notify() {
  for (asio::steady_timer* timer : waiters_) timer->cancel();
}

asio::awaitable<void> Repl::wait(const ReplCall& call, Clock::time_point until) {
  const auto began = Clock::now();
  asio::steady_timer timer(loop_);
  waiters_.insert(&timer);
  while ((state_ == State::Running || is_starting_) && !*call.is_cancelled) {
    const auto now = Clock::now();
    if (now >= until) break;
    timer.expires_at(call.progress ? std::min(until, now + kProgressPeriod) : until);
    const auto [problem] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (!problem && call.progress && state_ == State::Running) {
      call.progress(std::chrono::duration<double>(Clock::now() - began).count(), log_.last_line());
    }
  }
  waiters_.erase(&timer);
  if (*call.is_cancelled && state_ == State::Running) worker_->interrupt();
}

asio::awaitable<void> Repl::await_end() {
  const auto until = Clock::now() + kLastWord;
  asio::steady_timer timer(loop_);
  while (box_ && !box_->live->is_alive() && !box_->live->end() && Clock::now() < until) {
    timer.expires_after(milliseconds(2));
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));  // looks again
  }
}

// A box can end without its worker noticing: by a limit, while nothing runs.
void Repl::notice_death() {
  if (state_ == State::None || is_renewing_ || !box_ || box_->live->is_alive()) return;
  const auto& end = box_->live->end();
  worker_->close();
  on_end(fmt::format("[repl] session ended{}{}\n", end ? ": " : "", end ? end->sentence : ""));
}

Meta Repl::meta_of(const CallSandbox& sandbox) const {
  if (sandbox.state == CallSandbox::State::Missing) return Meta::Missing;
  if (sandbox.state == CallSandbox::State::Unusable) return Meta::Unusable;
  return !box_ || boxes_.has_sandbox(*box_, sandbox.profile) ? Meta::Same : Meta::Changed;
}

asio::awaitable<Result<void>> Repl::start_worker() {
  worker_ = language_ == Language::Bash
                ? make_bash_worker(loop_, box_->live, make_events())
                : make_python_worker(loop_, box_->live, make_events(), box_->interpreters);
  state_ = State::Idle;
  const std::shared_ptr<Worker> worker = worker_;
  auto started = co_await worker->start();
  if (!started) co_await drop_box();
  co_return started;
}

asio::awaitable<Result<void>> Repl::start_box(Profile profile) {
  is_starting_ = true;
  Result<void> started;
  auto made = co_await boxes_.make(std::move(profile));
  if (made) {
    box_ = *std::move(made);
    started = co_await start_worker();
  } else {
    started = tl::unexpected(std::move(made).error());
  }
  is_starting_ = false;
  notify();
  co_return started;
}

asio::awaitable<void> Repl::wait_for_quiet() {
  asio::steady_timer timer(loop_, Clock::time_point::max());
  waiters_.insert(&timer);
  while (is_starting_ || ending_ > 0) {
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));  // woken by notify()
  }
  waiters_.erase(&timer);
}

asio::awaitable<Result<void>> Repl::ensure_box(const CallSandbox& sandbox) {
  GLOVEBOX_CHECK(sandbox.state == CallSandbox::State::Known);
  co_await wait_for_quiet();
  if (state_ == State::None) {
    auto started = co_await start_box(sandbox.profile);
    if (!started) co_return started;
  }
  // Calls overlap: another may have ended this box, or started one under its own sandbox.
  if (state_ != State::Idle || !(box_->profile == sandbox.profile)) {
    co_return fail(Code::Denied, "another call has changed the session meanwhile; try again");
  }
  co_return Result<void>();
}

asio::awaitable<Result<Box*>> Repl::open_box(const CallSandbox& sandbox) {
  notice_death();
  if (sandbox.state != CallSandbox::State::Known) {
    co_return fail(Code::Denied, "{}", sandbox.problem);
  }
  if (state_ == State::None) {
    auto opened = co_await ensure_box(sandbox);
    if (!opened) co_return tl::unexpected(std::move(opened).error());
  }
  if (!boxes_.has_sandbox(*box_, sandbox.profile)) {
    co_return fail(Code::Denied,
                   "the sandbox of this call is not the one that the session was started under; "
                   "run code with repl, which starts another session");
  }
  co_return box_.get();
}

asio::awaitable<void> Repl::drop_box() {
  state_ = State::None;
  if (worker_) worker_->close();
  worker_.reset();
  std::unique_ptr<Box> box = std::move(box_);
  if (!box) co_return;
  ++ending_;
  co_await boxes_.end(std::move(box));
  --ending_;
  notify();
}

asio::awaitable<void> Repl::drop_later(std::shared_ptr<Repl> self) { co_await self->drop_box(); }

asio::awaitable<void> Repl::end() {
  ended_.reset();
  has_told_prompt_ = false;
  ++restarts_;
  notify();
  co_await drop_box();
}

std::string Repl::busy_status() const {
  const auto elapsed =
      std::chrono::duration_cast<milliseconds>(Clock::now() - request_began_).count() / 100 * 100;
  return fmt::format("<<repl status: busy, write_stdin timeout reached; elapsed_ms={}>>", elapsed);
}

ToolReply Repl::report(json::array before, std::string_view when_empty) {
  ToolReply reply;
  if (idle_notice_) reply.content.push_back(text_item(*idle_notice_));
  idle_notice_.reset();
  append(reply.content, std::move(before));
  append(reply.content, log_.take());
  has_untold_end_ = false;
  has_told_prompt_ = state_ == State::Waiting;
  if (ended_) {
    reply.content.push_back(text_item(*ended_));
    ended_.reset();
  } else if (state_ == State::Running) {
    reply.content.push_back(text_item(busy_status()));
  } else if (state_ == State::Waiting && has_empty_prompt_) {
    reply.content.push_back(text_item(kWaiting));
  } else if (reply.content.empty()) {
    reply.content.push_back(text_item(when_empty));
  }
  return reply;
}

asio::awaitable<bool> Repl::wait_for_turn(const ReplCall& call, const Place& place,
                                          Clock::time_point until) {
  const auto began = Clock::now();
  asio::steady_timer timer(loop_);
  waiters_.insert(&timer);
  while (!place.is_first() && !*call.is_cancelled) {
    const auto now = Clock::now();
    if (now >= until) break;
    timer.expires_at(call.progress ? std::min(until, now + kProgressPeriod) : until);
    const auto [problem] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (problem || !call.progress) continue;
    call.progress(std::chrono::duration<double>(Clock::now() - began).count(), "waits its turn");
  }
  waiters_.erase(&timer);
  co_return place.is_first() && !*call.is_cancelled;
}

std::string_view Repl::why_discarded(std::uint64_t restarts) const {
  if (restarts != restarts_) return kRestartedMeanwhile;
  return state_ == State::Waiting ? kAskedMeanwhile : std::string_view();
}

asio::awaitable<ToolReply> Repl::call(ReplCall call) {
  const auto until = Clock::now() + effective_wait(call.timeout);
  const Input input = parse_input(call.input);
  if (input.kind != Input::Kind::Code || is_for_pager(input)) {
    co_return co_await act_on(call, input, until);
  }
  const auto self = shared_from_this();
  const Place place(*this);
  const std::uint64_t restarts = restarts_;
  const bool must_wait = !place.is_first();
  const bool is_first = co_await wait_for_turn(call, place, until);
  // What runs is none of this call's: its output is not taken, and it is not interrupted.
  if (!is_first) {
    ToolReply reply = text_reply(busy_status());
    reply.content.push_back(text_item(kDiscarded));
    co_return reply;
  }
  const std::string_view why = must_wait ? why_discarded(restarts) : std::string_view();
  if (!why.empty()) co_return text_reply(why);
  co_return co_await act_on(call, input, until);
}

asio::awaitable<ToolReply> Repl::act_on(const ReplCall& call, const Input& input,
                                        Clock::time_point until) {
  co_await await_end();
  notice_death();
  if (is_starting_) co_await wait(call, until);
  if (state_ == State::Running && !input.rest.empty()) {
    co_await wait(call, std::min(until, Clock::now() + kSettle));
  }
  if (is_for_pager(input)) co_return co_await page(call, input, until);
  std::string code(input.rest);
  const Act act = decide(input, phase(), meta_of(call.sandbox));
  const bool keeps_pages = act == Act::Refuse || act == Act::Report || act == Act::Busy ||
                           act == Act::Discard || act == Act::Interrupt;
  if (!keeps_pages) log_.drop_pager();
  const bool has_turn = input.kind == Input::Kind::Code;
  if (!has_turn && (act == Act::Restart || act == Act::ChangeRun)) ++restarts_;
  // Named: g++ 12 destroys a braced list in an awaited call twice.
  std::string no_code;
  json::array nothing_before;
  switch (act) {
    case Act::Refuse: co_return error_reply(call.sandbox.problem);
    case Act::Start: {
      const auto opened = co_await ensure_box(call.sandbox);
      if (!opened) co_return error_reply("worker error: " + opened.error().message);
      co_return report({}, kIdle);
    }
    case Act::Report: co_await wait(call, until); co_return report({}, kIdle);
    case Act::Interrupt: co_return co_await interrupt(call, std::move(no_code), until);
    case Act::InterruptRun: co_return co_await interrupt(call, std::move(code), until);
    case Act::Restart: co_return co_await restart(call, std::move(code), until);
    case Act::ChangeRun: co_return co_await change(call, std::move(code), until);
    case Act::Input: co_return co_await send_input(call, std::move(code), until);
    case Act::Run: co_return co_await run(call, std::move(code), until, std::move(nothing_before));
    case Act::Busy:
    case Act::Discard: break;
  }
  ToolReply reply = report({}, kIdle);
  reply.content.push_back(text_item(act == Act::Busy ? kDiscarded : kMissed));
  co_return reply;
}

bool Repl::is_for_pager(const Input& input) {
  const Pager* pager = log_.pager();
  if (pager == nullptr) return false;
  const bool is_blank = input.rest.find_first_not_of(" \t\r\n") == std::string_view::npos;
  switch (input.kind) {
    case Input::Kind::Restart: return false;
    case Input::Kind::Interrupt: return input.rest.starts_with(':') && state_ != State::None;
    case Input::Kind::Poll:
    case Input::Kind::Code: break;
  }
  if (input.rest.starts_with(':')) return true;
  // While code runs, and when all was shown, an empty input asks about the session.
  return is_blank && state_ != State::Running && !pager->is_at_end();
}

// Answered from what is kept here: whatever the client says about its sandbox does not matter.
asio::awaitable<ToolReply> Repl::page(const ReplCall& call, const Input& input,
                                      Clock::time_point until) {
  if (input.kind == Input::Kind::Interrupt && state_ == State::Running) {
    worker_->interrupt();
    co_await wait(call, until);
  }
  Pager* pager = log_.pager();
  ToolReply reply;
  if (pager == nullptr) co_return report({}, kIdle);  // another call has dropped it meanwhile
  reply.content =
      input.rest.starts_with(':') ? pager->command(input.rest.substr(1)) : pager->next_page();
  if (!pager->has_quit()) co_return reply;
  log_.drop_pager();
  co_return report({}, kIdle);
}

asio::awaitable<ToolReply> Repl::run(const ReplCall& call, std::string code,
                                     Clock::time_point until, json::array before) {
  if (ended_) append(before, report({}, "").content);
  const auto opened = co_await ensure_box(call.sandbox);
  if (!opened) co_return error_reply("worker error: " + opened.error().message);
  log_.begin_request();
  state_ = State::Running;
  has_untold_end_ = false;
  request_began_ = Clock::now();
  const std::shared_ptr<Worker> worker = worker_;
  const auto sent = co_await worker->run(std::move(code));
  if (!sent && !ended_) co_return error_reply("worker error: " + sent.error().message);
  co_await wait(call, until);
  co_return report(std::move(before), "");
}

asio::awaitable<ToolReply> Repl::send_input(const ReplCall& call, std::string text,
                                            Clock::time_point until) {
  if (!text.ends_with('\n')) text += '\n';
  state_ = State::Running;
  has_told_prompt_ = false;
  const std::shared_ptr<Worker> worker = worker_;
  const auto sent = co_await worker->send_input(std::move(text));
  if (!sent && !ended_) co_return error_reply("worker error: " + sent.error().message);
  co_await wait(call, until);
  co_return report({}, "");
}

asio::awaitable<ToolReply> Repl::interrupt(const ReplCall& call, std::string code,
                                           Clock::time_point until) {
  if (state_ == State::Running || state_ == State::Waiting) {
    state_ = State::Running;  // until the worker says that it is ready, or waits again
    has_told_prompt_ = false;
    worker_->interrupt();
    co_await wait(call, until);
  }
  if (code.empty()) co_return report({}, kIdle);
  if (state_ == State::Running || state_ == State::Waiting) {
    ToolReply reply = report({}, "");
    reply.content.push_back(text_item(kDiscarded));
    co_return reply;
  }
  json::array nothing_before;
  co_return co_await run(call, std::move(code), until, std::move(nothing_before));
}

asio::awaitable<ToolReply> Repl::restart(const ReplCall& call, std::string code,
                                         Clock::time_point until) {
  if (state_ != State::None) {
    const std::shared_ptr<Worker> worker = worker_;
    const auto grace = Clock::now() + kGrace;
    const bool was_running = state_ != State::Idle;
    state_ = State::Running;
    co_await worker->ask_to_end();
    // A shell has nothing to say at its end, and code that runs will not hear of it before.
    const bool may_end = language_ == Language::Python || was_running;
    if (may_end) co_await wait(call, grace);
  }
  ended_.reset();
  json::array before = log_.take();
  co_await drop_box();
  ended_.reset();
  has_untold_end_ = has_told_prompt_ = false;
  before.push_back(text_item(kRestarted));
  if (!code.empty()) co_return co_await run(call, std::move(code), until, std::move(before));
  ToolReply reply;
  reply.content = std::move(before);
  co_return reply;
}

asio::awaitable<ToolReply> Repl::change(const ReplCall& call, std::string code,
                                        Clock::time_point until) {
  const bool was_running = state_ == State::Running || state_ == State::Waiting;
  // What answers a prompt is never code, under no sandbox.
  const bool is_answer =
      state_ == State::Waiting && parse_input(call.input).kind == Input::Kind::Code;
  // Then it is the host that changed (BoxMaker::has_sandbox).
  const bool is_same_profile = box_ && box_->profile == call.sandbox.profile;
  json::array before = log_.take();
  co_await drop_box();
  ended_.reset();
  has_untold_end_ = has_told_prompt_ = false;
  notify();
  const std::string notice = fmt::format(
      "[repl] sandbox policy changed; new session started\n{}{}[repl] new sandbox policy: {}\n",
      is_same_profile ? "[repl] a file that the sandbox denies or protects has appeared, or was "
                        "replaced outside of the box\n"
                      : "",
      was_running ? "[repl] previous request aborted because sandbox policy changed\n" : "",
      json::serialize(to_json(call.sandbox.profile)));
  before.push_back(text_item(notice));
  if (!is_answer) co_return co_await run(call, std::move(code), until, std::move(before));
  before.push_back(text_item(kMissed));
  ToolReply reply;
  reply.content = std::move(before);
  co_return reply;
}

}  // namespace glovebox::mcp
