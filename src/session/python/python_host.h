// A Python session's channel: exec, call, post, recv, log, metric, request.
//
//   co_await host->take_from_client(message);
//   co_await host->next();               // for a client
//
// One client at a time. What is made for one while none is there is kept, as far as
// python::kMaxKept. How much of that the client has taken is told to the interpreter, which counts
// what it sends and waits when there is no room; one that does not wait is ended. So nothing here
// ever waits for a client, and a cell without one does not hold up those that share its worker.
// Operations run one after another in the order in which they came; each has exactly one answer,
// under the id that the client gave it. docs/reference/python.md has the messages.
//
// What the interpreter says is hostile. It can answer the operation that is under way and no other,
// ask for what the authority then decides out here (python_broker.h), and end its own session; that
// is all. The loop's thread only.
#pragma once

#include "async/event.h"
#include "async/semaphore.h"
#include "egress/rules/denial_limiter.h"
#include "python/channel/python_message.h"
#include "session/python/python_plan.h"
#include "session/python/python_worker.h"

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
  std::uint64_t times = 1;  // how many like it this one stands for
};

struct PythonCallbacks {
  // The host is over; the session should be too. Once.
  std::function<void(const PythonEnd&)> on_end;
  // The worker is gone through no fault of this cell. True: the manager will restart() it.
  std::function<bool()> on_worker_lost;
  std::function<void(const PythonDenial&)> on_denial;
};

class PythonBroker;

class PythonHost final : public PythonCell, public std::enable_shared_from_this<PythonHost> {
 public:
  // Bounds. What a client sends beyond them is answered with an error. Those that the interpreter
  // keeps too are in python/python_protocol.h.
  static constexpr std::size_t kMaxOperations = 256;
  static constexpr std::size_t kMaxOperationBytes = std::size_t{80} << 20;
  // Answers, errors and other messages that are no act of the interpreter's own. Nothing more is
  // read from a client that leaves so many where they are.
  static constexpr std::size_t kMaxOwed = 1024;
  static constexpr std::size_t kMaxRequests = 64;
  static constexpr std::size_t kMaxRequestBytes = std::size_t{80} << 20;
  static constexpr std::size_t kMaxServed = 4;  // requests that are carried out at a time
  static constexpr std::size_t kMaxHandled = 64;

  PythonHost(asio::io_context& loop, std::shared_ptr<PythonWorker> worker, std::uint32_t number);
  ~PythonHost() override;

  // Hands the cell its authority. Before anything else, once.
  Result<void> begin(PythonPlan plan, PythonCallbacks callbacks);

  // Waits until a cell of a worker has begun. An error: it has not, and is over.
  asio::awaitable<Result<void>> await_open();

  // The same cell, empty again, in another worker. The client is told.
  Result<void> restart(std::shared_ptr<PythonWorker> worker, std::uint32_t number);

  // For one client. attach() gives it a number, and is Code::Exhausted while there is another.
  Result<std::uint64_t> attach();
  void detach();
  // Waits until the client of this number has taken enough of what it is owed. False: it has gone.
  asio::awaitable<bool> await_room(std::uint64_t client);
  // Code::Invalid for what is no message of a client; the channel should be closed.
  asio::awaitable<Result<void>> take_from_client(PythonMessage message);
  // Code::NotFound after the last: the session is over.
  asio::awaitable<Result<PythonMessage>> next();

  // next() returns an error: the client of this number has gone.
  void stop_waiting(std::uint64_t client);

  // Ends it from outside. What waits gets its error, then `end`.
  void close(const PythonEnd& end);
  bool is_over() const { return end_.has_value(); }
  std::size_t under_way() const { return operations_.size(); }  // operations
  bool is_attached() const { return is_attached_; }
  std::chrono::steady_clock::time_point last_use() const { return last_use_; }
  const PythonPlan& plan() const { return plan_; }
  const std::shared_ptr<PythonWorker>& worker() const { return worker_; }
  std::uint32_t number() const { return number_; }

  void take(PythonWord word, PythonMessage message, Result<PythonHead> head) override;
  void take_stray(std::string_view text) override;
  bool is_busy() const override { return !operations_.empty() && operations_.front().is_sent; }
  void worker_over(const PythonExit& exit) override;

 private:
  struct Operation {
    std::uint64_t id = 0;
    PythonMessage message;
    bool is_stats = false;
    bool is_sent = false;
    bool is_cancelled = false;
  };

  // One message for the client.
  struct Kept {
    PythonMessage message;
    bool is_counted = false;  // takes up room of the interpreter's
  };
  struct Amount {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };

  // From the client.
  Result<void> take_words(const boost::json::object& head, PythonMessage message);
  Result<void> take_operation(std::uint64_t id, std::string_view op, PythonMessage message);
  Result<void> take_cancel(std::uint64_t id);
  Result<void> take_reply(std::uint64_t id, const PythonMessage& message);
  Result<void> take_handle(const boost::json::object& head);
  void start_next();
  void watch_wall();

  // From the interpreter.
  Result<void> take_word(PythonWord word, const PythonHead& head, PythonMessage& message);
  Result<void> take_answer(const boost::json::object& head, PythonMessage& message);
  bool is_too_much(std::size_t bytes);
  Result<void> take_event(const boost::json::object& head, PythonMessage& message);
  Result<void> take_request(const PythonHead& head, PythonMessage message);
  static asio::awaitable<void> serve_request(std::shared_ptr<PythonHost> self, std::uint64_t id,
                                             PythonMessage message);
  void refuse_request(std::uint64_t id, std::string_view why);
  void note_taken(std::size_t bytes);
  void tell_denial(PythonDenial denial);
  bool has_room() const {
    return kept_.size() <= python::kMaxKept && kept_bytes_ <= python::kMaxKeptBytes;
  }

  Result<void> send_begin();
  Result<void> take_over(const boost::json::object& head);
  Result<void> take_opened();
  void give(PythonMessage message);
  void give_counted(PythonMessage message);
  void give_error(std::uint64_t id, const PythonEnd& end);

  asio::io_context& loop_;
  std::shared_ptr<PythonWorker> worker_;
  std::uint32_t number_;
  PythonPlan plan_;
  PythonCallbacks callbacks_;
  std::shared_ptr<PythonBroker> broker_;
  std::deque<Operation> operations_;  // the first one is under way
  std::size_t operation_bytes_ = 0;   // of those that wait
  std::deque<Kept> kept_;
  std::size_t kept_bytes_ = 0;
  Amount counted_;                              // of what is kept
  Amount taken_;                                // in all, of what this interpreter sent
  Amount told_;                                 // the last that it heard of it
  std::set<std::string, std::less<>> handled_;  // capabilities that the client answers for
  std::set<std::uint64_t> asked_;               // requests that the client was asked
  std::set<std::uint64_t> served_;              // requests that are executed here
  std::size_t request_bytes_ = 0;               // of those that are executed
  std::shared_ptr<Semaphore> serving_;
  egress::DenialGate denials_;
  Wakeup given_;
  Wakeup freed_;
  Wakeup opened_;
  asio::steady_timer wall_;
  std::uint64_t output_bytes_ = 0;  // everything that came out
  std::uint64_t started_ = 0;       // counts the operations that were sent to the interpreter
  std::uint64_t seating_ = 0;       // counts the workers that the cell has been in
  bool is_open_ = false;            // the interpreter has said so
  bool is_attached_ = false;
  bool is_stopped_ = false;   // the attached client has gone
  std::uint64_t client_ = 0;  // the number of the last one
  std::optional<PythonEnd> end_;
  std::chrono::steady_clock::time_point last_use_ = std::chrono::steady_clock::now();
};

}  // namespace glovebox::session
