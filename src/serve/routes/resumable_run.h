// A run whose events can be read again after a connection broke.
//
// The run goes on when its client is gone: what it prints waits in a bounded buffer, and when that
// is full the run waits. A client that comes back says which event it had last and gets those after
// it. Without a client for as long as the request allows, the run is ended and forgotten. One
// client at a time: a second one takes the stream over, and the first one's ends.
//
// The loop's thread only.
#pragma once

#include "async/event.h"
#include "http/exchange.h"
#include "serve/replay_buffer.h"
#include "serve/routes/run_body.h"

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace glovebox::serve {

// Of one run. Connections hold some of it on its way, so a small one would lose what they lose.
inline constexpr std::size_t kReplayBytes = 4 << 20;
// Of all sessions together; more are 429 unless some of them are over.
inline constexpr std::size_t kMostResumable = 64;

class ResumableRun final : public session::OutputReader,
                           public std::enable_shared_from_this<ResumableRun> {
 public:
  struct Names {
    std::string run;      // a UUID, told in the first event
    std::string session;  // whose run it is
  };
  // Called once, when no client can come back any more.
  using OnForgotten = std::function<void(const std::string& run)>;

  ResumableRun(asio::io_context& loop, Names names, std::chrono::seconds patience,
               OnForgotten on_forgotten);

  const Names& names() const { return names_; }
  void start(std::shared_ptr<session::LiveSession> live, RunOrder order);

  // Whether only its past is kept, for a client that may ask once more: it gives way to others.
  bool is_only_kept() const { return is_over_ && !is_followed_; }
  bool can_follow(std::uint64_t after) const { return buffer_.can_follow(after); }
  std::uint64_t first_kept() const { return buffer_.first_id(); }
  // Sends the events after `after` as they come, until the end or until the client goes.
  asio::awaitable<void> follow(Exchange& exchange, std::uint64_t after);

  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override;

 private:
  static asio::awaitable<void> carry(std::shared_ptr<ResumableRun> self,
                                     std::shared_ptr<session::LiveSession> live, RunOrder order);
  asio::awaitable<Result<void>> send_events(Exchange& exchange, std::uint64_t turn);
  void keep_events();
  void wait_for_follower();

  asio::io_context& loop_;
  Names names_;
  std::chrono::seconds patience_;
  OnForgotten on_forgotten_;
  EventWriter writer_{EventForm::Standard};
  ReplayBuffer buffer_{kReplayBytes};
  session::Wakeup room_;                       // for the run, when the buffer was full
  std::shared_ptr<session::Wakeup> follower_;  // of the client that follows
  std::uint64_t turn_ = 0;                     // counts those who follow
  asio::steady_timer leave_;
  asio::cancellation_signal stop_;
  bool is_over_ = false;
  bool is_followed_ = false;
};

// The handlers.
asio::awaitable<Answer> run_resumably(Call& call, std::shared_ptr<session::LiveSession> live,
                                      RunOrder order);

}  // namespace glovebox::serve
