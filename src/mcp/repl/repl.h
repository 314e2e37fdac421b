// One named session behind the `repl` tool: its box, its worker, what it printed, and the states
// between them.
//
// Calls come one after the other or at the same time; each is a coroutine on the loop. Calls with
// code take turns, in their order: one that comes while another still waits for its code runs when
// that has returned, and is discarded if its own time is over first. They are as many as the server
// takes calls at a time. An interrupt, a poll and a restart do not wait for their turn: they get
// through, and who waits is woken by what they cause.
#pragma once

#include "mcp/repl/repl_action.h"
#include "mcp/repl/repl_box.h"
#include "mcp/repl/repl_output.h"
#include "mcp/repl/worker.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/array.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace glovebox::mcp {

using Clock = std::chrono::steady_clock;

// What is known about the sandbox of one call.
struct CallSandbox {
  enum class State : std::uint8_t { Missing, Unusable, Known };
  State state = State::Missing;
  Profile profile;      // with Known
  std::string problem;  // otherwise, the sentence for the reply
};

// What a tool answers.
struct ToolReply {
  boost::json::array content;
  bool is_error = false;
};
ToolReply error_reply(std::string_view sentence);
ToolReply text_reply(std::string_view text);

struct ReplCall {
  std::string input;
  std::chrono::milliseconds timeout{60'000};
  CallSandbox sandbox;
  // Called now and then while the call waits: seconds since it began, and the last line printed.
  std::function<void(double, std::string)> progress;
  // Set when the client has given the call up: it interrupts what it waits for, and returns.
  std::shared_ptr<bool> is_cancelled = std::make_shared<bool>(false);
};

// How long a call with this timeout waits, so that its reply is there before the client's own
// deadline.
std::chrono::milliseconds effective_wait(std::chrono::milliseconds timeout);

class Repl : public std::enable_shared_from_this<Repl> {
 public:
  Repl(asio::io_context& loop, BoxMaker& boxes, BundleStore& bundles, Language language,
       OutputForm form)
      : loop_(loop), boxes_(boxes), log_(bundles, form), language_(language) {}
  Repl(const Repl&) = delete;
  Repl& operator=(const Repl&) = delete;

  asio::awaitable<ToolReply> call(ReplCall call);

  Phase phase() const;
  Language language() const { return language_; }
  // The box, for the other tools; nothing while there is none.
  Box* box() { return box_.get(); }
  // A box under the call's sandbox, started if there is none. For tools that need no worker too.
  asio::awaitable<Result<Box*>> open_box(const CallSandbox& sandbox);
  // Boxes that begin with the files of this one (repl_state.cpp). Refused while code runs, under
  // another sandbox, and before there is a box. A session that wrote files gets a fresh box itself,
  // in which no interpreter remembers anything: only with WhileRunning::End.
  asio::awaitable<Result<std::vector<std::unique_ptr<Box>>>> fork(CallSandbox sandbox,
                                                                  std::size_t count,
                                                                  session::WhileRunning running);
  // Writes the box's files out, with the same refusals. Returns the size.
  asio::awaitable<Result<std::uint64_t>> checkpoint(CallSandbox sandbox, std::string name);
  // Takes a box that was made elsewhere. Only before there is one.
  asio::awaitable<Result<void>> adopt(std::unique_ptr<Box> box);
  // Wakes the calls that wait, because one of them was cancelled.
  void wake() { notify(); }
  asio::awaitable<void> end();

 private:
  enum class State : std::uint8_t { None, Idle, Running, Waiting };

  WorkerEvents make_events();
  void on_end(std::string notice);
  // When the box reached its memory limit: what to say instead of the worker's own words.
  std::optional<std::string> guardrail_notice() const;
  void notify();
  // A place in the line of calls with code, for as long as it lives.
  class Place;
  // Until the place is the first. False: the time is over, or the call is cancelled.
  asio::awaitable<bool> wait_for_turn(const ReplCall& call, const Place& place,
                                      Clock::time_point until);
  // Why code that waited in line is not run after all; empty: it is.
  std::string_view why_discarded(std::uint64_t restarts) const;
  asio::awaitable<ToolReply> act_on(const ReplCall& call, const Input& input,
                                    Clock::time_point until);
  // Until nothing runs, the time is over, or the call is cancelled.
  asio::awaitable<void> wait(const ReplCall& call, Clock::time_point until);
  // Until no box is being started or ended.
  asio::awaitable<void> wait_for_quiet();
  asio::awaitable<Result<void>> ensure_box(const CallSandbox& sandbox);
  asio::awaitable<Result<void>> start_box(Profile profile);
  // A worker in the box that is there. Without one the box goes, too.
  asio::awaitable<Result<void>> start_worker();
  Result<void> check_quiet(const CallSandbox& sandbox) const;
  // After a fork: another worker if the box is another.
  asio::awaitable<Result<void>> take_up_renewal(std::string id);
  asio::awaitable<void> drop_box();
  static asio::awaitable<void> drop_later(std::shared_ptr<Repl> self);
  void notice_death();
  // Until it is known what ended a box that is ending.
  asio::awaitable<void> await_end();
  Meta meta_of(const CallSandbox& sandbox) const;

  // Whether the input is the active pager's: a command, or the next page.
  bool is_for_pager(const Input& input);
  asio::awaitable<ToolReply> page(const ReplCall& call, const Input& input,
                                  Clock::time_point until);
  asio::awaitable<ToolReply> run(const ReplCall& call, std::string code, Clock::time_point until,
                                 boost::json::array before);
  asio::awaitable<ToolReply> restart(const ReplCall& call, std::string code,
                                     Clock::time_point until);
  asio::awaitable<ToolReply> interrupt(const ReplCall& call, std::string code,
                                       Clock::time_point until);
  asio::awaitable<ToolReply> change(const ReplCall& call, std::string code,
                                    Clock::time_point until);
  asio::awaitable<ToolReply> send_input(const ReplCall& call, std::string text,
                                        Clock::time_point until);
  // What is there to tell, with the status that belongs to it.
  ToolReply report(boost::json::array before, std::string_view when_empty);
  std::string busy_status() const;

  asio::io_context& loop_;
  BoxMaker& boxes_;
  OutputLog log_;
  Language language_;
  State state_ = State::None;
  std::unique_ptr<Box> box_;
  std::shared_ptr<Worker> worker_;
  bool is_starting_ = false;
  // The box may be replaced by a fresh one; an end of the worker is then none of the session.
  bool is_renewing_ = false;
  std::optional<std::string> end_while_renewing_;
  std::size_t ending_ = 0;       // boxes that are on their way out
  bool has_untold_end_ = false;  // code has ended since the last reply
  bool has_empty_prompt_ = false;
  bool has_told_prompt_ = false;    // the last reply ended with code that waits for input
  std::uint64_t restarts_ = 0;      // that did not wait for their turn
  std::deque<std::uint64_t> line_;  // places of calls with code
  std::uint64_t last_place_ = 0;
  std::optional<std::string> ended_;        // the notice of an end that was not told
  std::optional<std::string> idle_notice_;  // of an end that no call waited for
  Clock::time_point request_began_ = Clock::now();
  std::set<asio::steady_timer*> waiters_;
};

}  // namespace glovebox::mcp
