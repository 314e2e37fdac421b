// A Python session's channel: exec, call, post, recv, log, metric, request.
//
//   co_await host->take(message);        // from a client
//   co_await host->next();               // for a client
//
// One client at a time. What is made for one while none is there is kept, as far as kMaxKept; then
// the interpreter waits. Operations run one after another in the order in which they came; each has
// exactly one answer, under the id that the client gave it. docs/reference/python.md has the
// messages.
//
// What the interpreter says is hostile. It can answer the operation that is under way and no other,
// ask for what the authority then decides out here (python_broker.h), and end its own session; that
// is all. The loop's thread only.
#pragma once

#include "session/python_message.h"
#include "session/python_plan.h"
#include "session/python_worker.h"
#include "session/wakeup.h"

#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace glovebox::session {

// How a Python session ends when it is not asked to: "cpu", "wall", "memory", "output", "crash",
// "worker", "invalid"; and "closed".
struct PythonEnd {
  std::string reason;
  std::string sentence;
};

// Something that the authority does not allow and was tried all the same.
struct PythonDenial {
  std::string capability;
  std::string action;
  std::string rule;
};

struct PythonCallbacks {
  // The host is over; the session should be too. Once.
  std::function<void(const PythonEnd&)> on_end;
  // The worker is gone through no fault of this cell. True: somebody will restart() it.
  std::function<bool()> on_worker_lost;
  std::function<void(const PythonDenial&)> on_denial;
};

class PythonBroker;

class PythonHost final : public PythonCell, public std::enable_shared_from_this<PythonHost> {
 public:
  // Bounds. What a client sends beyond them is answered with an error; what the interpreter sends
  // waits.
  static constexpr std::size_t kMaxOperations = 256;
  static constexpr std::size_t kMaxKept = 4096;
  static constexpr std::size_t kMaxKeptBytes = std::size_t{80} << 20;
  static constexpr std::size_t kMaxRequests = 64;
  static constexpr std::size_t kMaxHandled = 64;

  PythonHost(asio::io_context& loop, std::shared_ptr<PythonWorker> worker, std::uint32_t number);
  ~PythonHost() override;

  // Hands the cell its authority. Before anything else, once.
  Result<void> begin(PythonPlan plan, PythonCallbacks callbacks);

  // The same cell, empty again, in another worker. The client is told.
  Result<void> restart(std::shared_ptr<PythonWorker> worker, std::uint32_t number);

  // For one client. attach() gives it a number, and is Code::Exhausted while there is another.
  Result<std::uint64_t> attach();
  void detach();
  // Code::Invalid for what is no message of a client; the channel should be closed.
  Result<void> take_from_client(PythonMessage message);
  // Code::NotFound after the last: the session is over.
  asio::awaitable<Result<PythonMessage>> next();

  // next() returns an error: the client of this number has gone.
  void stop_waiting(std::uint64_t client);

  // Ends it from outside. What waits gets its error, then `end`.
  void close(const PythonEnd& end);
  bool is_over() const { return end_.has_value(); }
  bool is_busy() const { return !operations_.empty() || is_attached_; }
  std::chrono::steady_clock::time_point last_use() const { return last_use_; }
  const PythonPlan& plan() const { return plan_; }
  const std::shared_ptr<PythonWorker>& worker() const { return worker_; }
  std::uint32_t number() const { return number_; }

  asio::awaitable<void> take(PythonWord word, PythonMessage message) override;
  void take_stray(std::string_view text) override;
  void worker_over(const PythonExit& exit) override;

 private:
  struct Operation {
    std::uint64_t id = 0;
    PythonMessage message;
    bool is_sent = false;
    bool is_cancelled = false;
  };

  // From the client.
  Result<void> take_operation(std::uint64_t id, PythonMessage message);
  Result<void> take_cancel(std::uint64_t id);
  Result<void> take_reply(std::uint64_t id, const PythonMessage& message);
  Result<void> take_handle(const boost::json::object& head);
  void start_next();
  void watch_wall();

  // From the interpreter.
  asio::awaitable<Result<void>> take_word(PythonWord word, PythonMessage& message);
  Result<void> take_answer(const boost::json::object& head);
  Result<void> take_event(const boost::json::object& head, PythonMessage& message);
  Result<void> take_request(const boost::json::object& head, PythonMessage message);
  static asio::awaitable<void> serve_request(std::shared_ptr<PythonHost> self, std::uint64_t id,
                                             PythonMessage message);
  asio::awaitable<void> await_room();

  Result<void> send_begin();
  Result<void> take_over(const boost::json::object& head);
  void give(PythonMessage message);
  void give_error(std::uint64_t id, const PythonEnd& end);

  asio::io_context& loop_;
  std::shared_ptr<PythonWorker> worker_;
  std::uint32_t number_;
  PythonPlan plan_;
  PythonCallbacks callbacks_;
  std::shared_ptr<PythonBroker> broker_;
  std::deque<Operation> operations_;  // the first one is under way
  std::deque<PythonMessage> kept_;
  std::size_t kept_bytes_ = 0;
  std::set<std::string, std::less<>> handled_;  // capabilities that the client answers for
  std::set<std::uint64_t> asked_;               // requests that the client was asked
  std::set<std::uint64_t> served_;              // requests that are executed here
  Wakeup given_;
  Wakeup taken_;
  asio::steady_timer wall_;
  std::uint64_t seating_ = 0;  // counts the workers that the cell has been in
  bool is_attached_ = false;
  bool is_stopped_ = false;   // whoever is attached has gone
  std::uint64_t client_ = 0;  // the number of the last one
  std::optional<PythonEnd> end_;
  std::chrono::steady_clock::time_point last_use_ = std::chrono::steady_clock::now();
};

}  // namespace glovebox::session
