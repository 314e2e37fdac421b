#include "serve/routes/resumable_run.h"

#include "async/task_group.h"
#include "base/uuid.h"
#include "serve/cancel_on_disconnect.h"
#include "serve/routes/handlers.h"

#include <charconv>

namespace glovebox::serve {
namespace {

constexpr std::size_t kMostAtOnce = 256 << 10;

}  // namespace

ResumableRun::ResumableRun(asio::io_context& loop, Names names, std::chrono::seconds patience,
                           OnForgotten on_forgotten)
    : loop_(loop),
      names_(std::move(names)),
      patience_(patience),
      on_forgotten_(std::move(on_forgotten)),
      room_(loop),
      leave_(loop) {
  writer_.init(names_.run);
  keep_events();
}

void ResumableRun::start(std::shared_ptr<session::LiveSession> live, RunOrder order) {
  session::spawn_owning(loop_.get_executor(),
                        carry(shared_from_this(), std::move(live), std::move(order)));
}

asio::awaitable<void> ResumableRun::carry(std::shared_ptr<ResumableRun> self,
                                          std::shared_ptr<session::LiveSession> live,
                                          RunOrder order) {
  auto running = carry_out(std::move(live), std::move(order), *self);
  auto [thrown, result] = co_await asio::co_spawn(
      self->loop_, std::move(running),
      asio::bind_cancellation_slot(self->stop_.slot(), asio::as_tuple(asio::use_awaitable)));
  if (thrown) result = fail(Code::Os, "a bug in glovebox ended the run");
  write_end(self->writer_, result);
  self->is_over_ = true;
  self->keep_events();
}

void ResumableRun::keep_events() {
  buffer_.add(writer_.pending());
  writer_.pending().clear();
  if (follower_) follower_->notify();
}

asio::awaitable<Result<void>> ResumableRun::take(guest::Stream stream, std::string_view bytes) {
  writer_.add(stream, bytes);
  keep_events();
  while (buffer_.is_full()) {
    const session::Woken woken = co_await room_.wait();
    if (woken == session::Woken::Canceled) co_return fail(Code::Os, "the run was canceled");
  }
  co_return Result<void>{};
}

asio::awaitable<Result<void>> ResumableRun::send_events(Exchange& exchange, std::uint64_t turn) {
  const std::shared_ptr<session::Wakeup> woken_by = follower_;
  // A client that comes back learns that the stream is there, also while nothing is printed.
  if (!buffer_.has_unsent() && !is_over_) CO_TRY_VOID(co_await exchange.flush_head());
  while (turn == turn_) {
    const std::string events = buffer_.take(kMostAtOnce);
    if (!events.empty()) {
      room_.notify();
      CO_TRY_VOID(co_await exchange.send(events));
      continue;
    }
    if (is_over_) break;
    const session::Woken woken = co_await woken_by->wait();
    if (woken == session::Woken::Canceled) co_return fail(Code::Os, "the client is gone");
  }
  co_return co_await exchange.finish("");
}

asio::awaitable<void> ResumableRun::follow(Exchange& exchange, std::uint64_t after) {
  const auto self = shared_from_this();
  const std::uint64_t turn = ++turn_;
  leave_.cancel();
  is_followed_ = true;
  if (follower_) follower_->notify();  // the old client sees that another one has the stream
  follower_ = std::make_shared<session::Wakeup>(loop_);
  buffer_.rewind(after);
  exchange.begin(event_stream_head(), Length{});
  auto sending = send_events(exchange, turn);
  (void)co_await until_gone(exchange, std::move(sending));  // the client may be gone
  if (turn != turn_) co_return;
  is_followed_ = false;
  wait_for_follower();
}

void ResumableRun::wait_for_follower() {
  leave_.expires_after(patience_);
  leave_.async_wait([weak = weak_from_this()](const boost::system::error_code& problem) {
    const std::shared_ptr<ResumableRun> self = weak.lock();
    if (problem || !self) return;
    if (!self->is_over_) self->stop_.emit(asio::cancellation_type::terminal);
    self->on_forgotten_(self->names_.run);
  });
}

asio::awaitable<Answer> run_resumably(Call& call, std::shared_ptr<session::LiveSession> live,
                                      RunOrder order) {
  Service& service = call.service;
  if (service.resumable.size() >= kMostResumable) {
    std::erase_if(service.resumable, [](const auto& one) { return one.second->is_only_kept(); });
  }
  if (service.resumable.size() >= kMostResumable) {
    co_return refuse(429, "TOO_MANY_REQUESTS", "there are {} runs that can be resumed already",
                     kMostResumable);
  }
  CO_TRY(const std::string id, or_refuse(session::make_uuid()));
  const auto forget = [&service](const std::string& run) { service.resumable.erase(run); };
  ResumableRun::Names names{id, call.request.parts.at(0)};
  const auto run =
      std::make_shared<ResumableRun>(service.io, std::move(names), order.resume, forget);
  service.resumable.emplace(id, run);
  run->start(std::move(live), std::move(order));
  co_await run->follow(call.exchange, 0);
  co_return already_sent();
}

// What an event source sends when it connects again: the id of the last event that it had.
asio::awaitable<Answer> run_events(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  const auto found = call.service.resumable.find(call.request.parts.at(1));
  if (found == call.service.resumable.end() || found->second->names().session != info.id) {
    co_return refuse(404, "RUN_NOT_FOUND", "run not found");
  }
  const std::shared_ptr<ResumableRun> run = found->second;
  CO_TRY(const std::uint64_t after, last_event_id(call.request));
  if (!run->can_follow(after)) {
    co_return refuse(410, "EVENTS_LOST", "the events after {} are not kept; the first is {}", after,
                     run->first_kept());
  }
  co_await run->follow(call.exchange, after);
  co_return already_sent();
}

Result<std::uint64_t, ApiError> last_event_id(const Request& request) {
  const std::string* text = request.find_header("last-event-id");
  if (text == nullptr) text = request.find_query("last_event_id");
  std::uint64_t id = 0;
  if (text == nullptr || text->empty()) return id;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), id);
  if (problem != std::errc() || end != text->data() + text->size()) {
    return refuse(400, "INVALID_REQUEST", "Last-Event-ID is the number of an event");
  }
  return id;
}

}  // namespace glovebox::serve
