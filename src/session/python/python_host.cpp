#include "session/python/python_host.h"

#include "async/co_try.h"
#include "python/channel/python_head.h"
#include "session/python/python_broker.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <csignal>

namespace glovebox::session {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 4> kOperations = {"exec", "call", "define", "stats"};
constexpr std::size_t kMostStray = std::size_t{64} << 10;
// How long a worker may take to begin a cell; then another is asked.
constexpr std::chrono::seconds kOpenPatience{20};

PythonMessage error_message(std::uint64_t id, std::string_view type, std::string_view text,
                            std::string_view kind) {
  return text_message({{"ev", "error"},
                       {"id", id},
                       {"error",
                        {{"type", std::string(type)},
                         {"message", std::string(text)},
                         {"traceback", ""},
                         {"kind", std::string(kind)}}}});
}

std::string now_text() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return fmt::format("{}.{:03}", ms / 1000, ms % 1000);
}

// What an interpreter's end means when nothing else is known of it.
PythonEnd end_of(const PythonExit& exit) {
  if (!exit.sentence.empty()) return {"worker", exit.sentence};
  if (exit.code == python::kCpuEndStatus || exit.code == 128 + SIGXCPU) {
    return {"cpu", "the session's CPU time was used up"};
  }
  if (exit.code == 0) return {"closed", "the interpreter has ended"};
  if (exit.code > 128) {
    return {"crash", fmt::format("the interpreter was ended by signal {}", exit.code - 128)};
  }
  return {"crash", fmt::format("the interpreter ended with status {}", exit.code)};
}

bool is_budget(std::string_view reason) {
  return reason == "cpu" || reason == "wall" || reason == "memory" || reason == "output" ||
         reason == "pids";
}

}  // namespace

PythonHost::PythonHost(asio::io_context& loop, std::shared_ptr<PythonWorker> worker,
                       std::uint32_t number)
    : loop_(loop),
      worker_(std::move(worker)),
      number_(number),
      serving_(std::make_shared<Semaphore>(loop, kMaxServed, "requests of the session")),
      given_(loop),
      freed_(loop),
      opened_(loop),
      wall_(loop) {}

PythonHost::~PythonHost() = default;

Result<void> PythonHost::begin(PythonPlan plan, PythonCallbacks callbacks) {
  plan_ = std::move(plan);
  callbacks_ = std::move(callbacks);
  return send_begin();
}

Result<void> PythonHost::send_begin() {
  broker_ = std::make_shared<PythonBroker>(worker_->box(), plan_);
  worker_->add(number_, weak_from_this());
  last_use_ = std::chrono::steady_clock::now();
  return worker_->send(PythonOrder::Begin, number_,
                       {PythonMessage::Form::Text, python_begin(plan_)});
}

asio::awaitable<Result<void>> PythonHost::await_open() {
  const auto self = shared_from_this();
  asio::steady_timer patience(loop_, kOpenPatience);
  patience.async_wait([weak = weak_from_this()](const boost::system::error_code& problem) {
    const auto host = weak.lock();
    if (problem || !host || host->is_open_) return;
    host->worker_->retire();
    host->close({"worker", "its worker did not answer"});
  });
  while (!is_open_ && !end_) {
    const Woken woken = co_await opened_.wait();
    if (woken == Woken::Canceled) close({"closed", "its creation was given up"});
  }
  if (is_open_) co_return Result<void>();
  co_return fail(Code::Os, "the cell could not begin: {}", end_->sentence);
}

Result<void> PythonHost::restart(std::shared_ptr<PythonWorker> worker, std::uint32_t number) {
  worker_ = std::move(worker);
  number_ = number;
  ++seating_;
  is_open_ = false;
  for (Kept& kept : kept_) kept.is_counted = false;  // no room of the next one's
  counted_ = taken_ = told_ = {};
  TRY_VOID(send_begin());
  give(text_message({{"ev", "restart"},
                     {"reason", "worker"},
                     {"message", "the worker ended; the cell begins anew in another"}}));
  start_next();
  return {};
}

// --- the client ----------------------------------------------------------------------------------

Result<std::uint64_t> PythonHost::attach() {
  if (is_attached_) return fail(Code::Exhausted, "somebody else has the channel of this session");
  is_attached_ = true;
  is_stopped_ = false;
  return ++client_;
}

void PythonHost::detach() {
  is_attached_ = false;
  freed_.notify();
  handled_.clear();
  last_use_ = std::chrono::steady_clock::now();
  // The client that was to answer is gone.
  for (const std::uint64_t id : std::exchange(asked_, {})) {
    const json::object error = {
        {"id", id},
        {"error", {{"type", "RuntimeError"}, {"message", "whoever handles this has gone"}}}};
    // An interpreter that has ended needs no answer.
    (void)worker_->send(PythonOrder::Reply, number_, text_message(error));
  }
}

asio::awaitable<Result<void>> PythonHost::take_from_client(PythonMessage message) {
  const auto self = shared_from_this();
  const std::uint64_t client = client_;
  CO_TRY(const PythonHead head, co_await read_head_aside(worker_->pool(), message));
  // Its sender has gone meanwhile.
  if (client != client_ || !is_attached_) co_return Result<void>();
  co_return take_words(head.members, std::move(message));
}

Result<void> PythonHost::take_words(const json::object& head, PythonMessage message) {
  const std::string op = text_at(head, "op");
  last_use_ = std::chrono::steady_clock::now();
  if (op == "post") {
    // One whose worker is lost begins anew, with nothing of what it was sent.
    if (is_over() || worker_->is_over()) return {};
    return worker_->send(PythonOrder::Post, number_, message);
  }
  if (op == "handle") return take_handle(head);
  const auto id = id_of(head);
  if (!id) return fail(Code::Invalid, "'{}' needs an 'id', a whole number from 0 to 2^53", op);
  if (op == "cancel") return take_cancel(*id);
  if (op == "reply") return take_reply(*id, message);
  if (std::ranges::find(kOperations, op) == kOperations.end()) {
    return fail(Code::Invalid, "there is no operation '{}'", op.substr(0, 64));
  }
  return take_operation(*id, op, std::move(message));
}

Result<void> PythonHost::take_operation(std::uint64_t id, std::string_view op,
                                        PythonMessage message) {
  const bool is_double = std::ranges::find(operations_, id, &Operation::id) != operations_.end();
  if (is_double) return fail(Code::Invalid, "an operation with the id {} is under way", id);
  if (end_) {
    give_error(id, *end_);
    return {};
  }
  if (operations_.size() >= kMaxOperations) {
    const std::string text = fmt::format("{} operations are waiting", kMaxOperations);
    give(error_message(id, "RuntimeError", text, "invalid"));
    return {};
  }
  if (operation_bytes_ + message.bytes.size() > kMaxOperationBytes) {
    const std::string text =
        fmt::format("operations of more than {} bytes are waiting", kMaxOperationBytes);
    give(error_message(id, "RuntimeError", text, "invalid"));
    return {};
  }
  operation_bytes_ += message.bytes.size();
  operations_.push_back({id, std::move(message), op == "stats"});
  start_next();
  return {};
}

// One operation at a time is with the interpreter; those behind it can still be taken back. None
// begins while its answer would find no room.
void PythonHost::start_next() {
  if (operations_.empty() || operations_.front().is_sent || end_ || !has_room()) return;
  if (worker_->is_over()) return;  // what waits is for the next one
  Operation& first = operations_.front();
  first.is_sent = true;
  ++started_;
  operation_bytes_ -= first.message.bytes.size();
  const auto sent =
      worker_->send(PythonOrder::Operation, number_, std::exchange(first.message, {}));
  if (sent) return watch_wall();
  const PythonEnd problem{"invalid", sent.error().message};
  give_error(first.id, problem);
  operations_.pop_front();
  asio::post(loop_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->start_next();
  });
}

void PythonHost::watch_wall() {
  if (!plan_.wall) return;
  wall_.expires_after(*plan_.wall);
  // Canceling does not stop a handler that is already on its way, and then another operation than
  // its own may be under way.
  wall_.async_wait([weak = weak_from_this(), own = started_](const auto& problem) {
    const auto self = weak.lock();
    if (problem || !self || self->started_ != own || self->operations_.empty()) return;
    if (!self->operations_.front().is_sent) return;
    self->close({"wall", "an operation took longer than it may"});
  });
}

Result<void> PythonHost::take_cancel(std::uint64_t id) {
  const auto found = std::ranges::find(operations_, id, &Operation::id);
  if (found == operations_.end()) return {};  // it is over, which is as good
  if (found->is_sent) {
    found->is_cancelled = true;
    return worker_->send(PythonOrder::Cancel, number_,
                         {PythonMessage::Form::Text, python::encode_numbers<1>({id})});
  }
  operation_bytes_ -= found->message.bytes.size();
  operations_.erase(found);
  give(error_message(id, "KeyboardInterrupt", "canceled before it began", "cancelled"));
  return {};
}

Result<void> PythonHost::take_reply(std::uint64_t id, const PythonMessage& message) {
  if (asked_.erase(id) == 0) return {};  // no caller waits for it any more
  return worker_->send(PythonOrder::Reply, number_, message);
}

Result<void> PythonHost::take_handle(const json::object& head) {
  std::string capability = text_at(head, "capability");
  if (capability.empty() || capability.size() > kMostName) {
    return fail(Code::Invalid, "'handle' needs a 'capability'");
  }
  if (handled_.size() >= kMaxHandled) {
    return fail(Code::Exhausted, "at most {} capabilities are handled", kMaxHandled);
  }
  handled_.insert(std::move(capability));
  return {};
}

asio::awaitable<Result<PythonMessage>> PythonHost::next() {
  while (kept_.empty() || is_stopped_) {
    if (is_stopped_) co_return unexpected(Error{Code::Os, EPIPE, "the client has gone"});
    if (end_) co_return fail(Code::NotFound, "the session is over");
    const Woken woken = co_await given_.wait();
    if (woken == Woken::Canceled) {
      co_return unexpected(Error{Code::Os, ECANCELED, "the channel is closed"});
    }
  }
  Kept kept = std::move(kept_.front());
  kept_.pop_front();
  const std::size_t size = kept.message.bytes.size();
  kept_bytes_ -= size;
  if (kept.is_counted) {
    --counted_.messages;
    counted_.bytes -= size;
    note_taken(size);
  }
  start_next();
  freed_.notify();
  co_return std::move(kept.message);
}

asio::awaitable<bool> PythonHost::await_room(std::uint64_t client) {
  const auto self = shared_from_this();
  while (client == client_ && is_attached_ && kept_.size() - counted_.messages > kMaxOwed) {
    const Woken woken = co_await freed_.wait();
    if (woken == Woken::Canceled) break;
  }
  co_return client == client_&& is_attached_;
}

// The interpreter has room again. It hears of it when that is worth a message.
void PythonHost::note_taken(std::size_t bytes) {
  ++taken_.messages;
  taken_.bytes += bytes;
  if (taken_.messages - told_.messages < python::kMaxKept / 4 &&
      taken_.bytes - told_.bytes < python::kMaxKeptBytes / 4) {
    return;
  }
  told_ = taken_;
  // One that has ended needs none.
  (void)worker_->send(
      PythonOrder::Room, number_,
      {PythonMessage::Form::Text, python::encode_numbers<2>({taken_.messages, taken_.bytes})});
}

void PythonHost::stop_waiting(std::uint64_t client) {
  if (client != client_) return;
  is_stopped_ = true;
  given_.notify();
}

void PythonHost::give(PythonMessage message) {
  kept_bytes_ += message.bytes.size();
  kept_.push_back({std::move(message), /*is_counted=*/false});
  given_.notify();
}

// What the interpreter sends of its own accord.
void PythonHost::give_counted(PythonMessage message) {
  ++counted_.messages;
  counted_.bytes += message.bytes.size();
  give(std::move(message));
  kept_.back().is_counted = true;
}

// The error of an operation that will have no other answer.
void PythonHost::give_error(std::uint64_t id, const PythonEnd& end) {
  const bool budget = is_budget(end.reason);
  const std::string kind = budget ? "budget" : end.reason == "invalid" ? "invalid" : "ended";
  give(text_message({{"ev", "error"},
                     {"id", id},
                     {"error",
                      {{"type", budget ? "BudgetExceeded" : "SessionEnded"},
                       {"message", end.sentence},
                       {"traceback", ""},
                       {"kind", kind},
                       {"reason", end.reason}}}}));
}

// --- the interpreter -----------------------------------------------------------------------------

void PythonHost::take(PythonWord word, PythonMessage message, Result<PythonHead> head) {
  const auto self = shared_from_this();
  if (end_ || is_too_much(message.bytes.size())) return;
  if (!head) return close({"invalid", head.error().message});
  const auto taken = take_word(word, *head, message);
  if (!taken) close({"invalid", taken.error().message});
}

// Counts what came out, and ends what goes beyond the budget of a cell.
bool PythonHost::is_too_much(std::size_t bytes) {
  output_bytes_ += bytes;
  if (!plan_.output_bytes || output_bytes_ <= *plan_.output_bytes) return false;
  close({"output", "the session printed more than it may"});
  return true;
}

Result<void> PythonHost::take_word(PythonWord word, const PythonHead& scanned,
                                   PythonMessage& message) {
  const bool is_its_own =
      word == PythonWord::Post || word == PythonWord::Event || word == PythonWord::Request;
  if (is_its_own &&
      (counted_.messages >= python::kMaxKept || counted_.bytes >= python::kMaxKeptBytes)) {
    return fail(Code::Invalid, "the interpreter sent more than there was room for");
  }
  const json::object& head = scanned.members;
  last_use_ = std::chrono::steady_clock::now();
  switch (word) {
    case PythonWord::Answer: {
      TRY_VOID(take_answer(head, message));
      give(std::move(message));
      start_next();
      return {};
    }
    case PythonWord::Post: {
      if (text_at(head, "ev") != "post" || !head.contains("value")) {
        return fail(Code::Invalid, "the interpreter posted what is no post");
      }
      give_counted(std::move(message));
      return {};
    }
    case PythonWord::Event: return take_event(head, message);
    case PythonWord::Request: return take_request(scanned, std::move(message));
    case PythonWord::Over: return take_over(head);
    case PythonWord::Opened: return take_opened();
    case PythonWord::Ready: break;
  }
  return fail(Code::Invalid, "a word that is not a cell's");
}

Result<void> PythonHost::take_opened() {
  if (plan_.backend != Backend::Cell || std::exchange(is_open_, true)) {
    return fail(Code::Invalid, "the interpreter opened what was open");
  }
  opened_.notify();
  return {};
}

// A cell of a worker has ended; an interpreter of its own ends as a process does.
Result<void> PythonHost::take_over(const json::object& head) {
  if (plan_.backend != Backend::Cell) {
    return fail(Code::Invalid, "the interpreter is no worker of cells");
  }
  const std::string reason = text_at(head, "reason");
  if (reason == "cpu") {
    close({"cpu", "the session's CPU time was used up"});
  } else if (reason == "crash") {
    close({"crash", "the interpreter met a fault, such as a full stack, and its worker ended"});
  } else {
    close({"crash", "the cell has ended: " + cut_text(text_at(head, "message"), kMostName)});
  }
  return {};
}

Result<void> PythonHost::take_answer(const json::object& head, PythonMessage& message) {
  const auto id = id_of(head);
  const std::string ev = text_at(head, "ev");
  const bool is_result = ev == "result" && head.contains("value");
  const json::value* error = head.if_contains("error");
  const bool is_error = ev == "error" && error != nullptr && error->is_object();
  if (operations_.empty() || !operations_.front().is_sent || !id || *id != operations_.front().id ||
      (!is_result && !is_error)) {
    return fail(Code::Invalid, "the interpreter answered what nobody had asked");
  }
  if (operations_.front().is_stats && is_result && head.at("value").is_object()) {
    if (message.form != PythonMessage::Form::Text) {
      return fail(Code::Invalid, "the interpreter counted in bytes");  // they would be lost
    }
    TRY(json::object counted, read_whole(message));
    counted["value"].as_object()["output_bytes"] = output_bytes_;
    message = text_message(counted);
  }
  operations_.pop_front();
  wall_.cancel();
  return {};
}

Result<void> PythonHost::take_event(const json::object& head, PythonMessage& message) {
  const std::string ev = text_at(head, "ev");
  if (ev == "log" || ev == "metric" || ev == "output") {
    give_counted(std::move(message));
    return {};
  }
  if (ev != "denial") return fail(Code::Invalid, "the interpreter told what is no event");
  note_taken(message.bytes.size());
  // Put together here again: only texts, and the time is ours.
  tell_denial({cut_text(text_at(head, "capability"), kMostName),
               cut_text(text_at(head, "attempted_action"), 4 * kMostName),
               cut_text(text_at(head, "policy_rule"), kMostName)});
  return {};
}

// The same one is told once in a while, and different ones at a bounded rate: a reader of denials
// does not pay for how often code tries.
void PythonHost::tell_denial(PythonDenial denial) {
  denial.times =
      denials_.take(fmt::format("{} {} {}", denial.capability, denial.rule, denial.action),
                    egress::DenialGate::Clock::now());
  if (denial.times == 0) return;
  // To a client that reads; the session's events have it in any case.
  if (has_room()) {
    give(text_message({{"ev", "denial"},
                       {"cell", plan_.name},
                       {"capability", denial.capability},
                       {"attempted_action", denial.action},
                       {"policy_rule", denial.rule},
                       {"decision", "deny"},
                       {"times", denial.times},
                       {"time", now_text()}}));
  }
  if (callbacks_.on_denial) callbacks_.on_denial(denial);
}

// Words that did not come through the channel: what native code prints.
void PythonHost::take_stray(std::string_view text) {
  if (end_ || is_too_much(text.size()) || !has_room()) return;
  const std::string shown(text.substr(0, kMostStray));
  json::object event = {{"ev", "output"}, {"stream", "stderr"}};
  std::string plain;
  for (const char c : shown) {
    plain += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  }
  event["text"] = plain;
  give(text_message(event));
}

void PythonHost::worker_over(const PythonExit& exit) {
  if (end_) return;
  // A cell that was not to blame, or not known to be, goes on elsewhere.
  const bool is_innocent = plan_.backend == Backend::Cell && worker_->culprit() != number_;
  if (!is_innocent || !callbacks_.on_worker_lost || !callbacks_.on_worker_lost()) {
    const bool is_killed = exit.sentence.empty() && exit.code == 128 + SIGKILL;
    if (!is_killed || plan_.backend == Backend::Cell || !callbacks_.on_end) {
      return close(end_of(exit));
    }
    // By whom, the launcher knows: the session hears of it, and closes this with the reason.
    return std::exchange(callbacks_.on_end, {})(end_of(exit));
  }
  // What was under way is lost; what waits is sent to the next worker.
  asked_.clear();
  served_.clear();
  wall_.cancel();
  if (!operations_.empty() && operations_.front().is_sent) {
    give_error(operations_.front().id,
               {"worker", "the worker ended, through no known fault of this cell"});
    operations_.pop_front();
  }
}

void PythonHost::close(const PythonEnd& end) {
  if (end_) return;
  const auto self = shared_from_this();
  end_ = end;
  wall_.cancel();
  for (const Operation& operation : std::exchange(operations_, {})) give_error(operation.id, end);
  give(text_message({{"ev", "end"}, {"reason", end.reason}, {"message", end.sentence}}));
  operation_bytes_ = 0;
  worker_->remove(number_);
  given_.notify();
  opened_.notify();
  if (const auto on_end = std::exchange(callbacks_.on_end, {})) on_end(end);
}

}  // namespace glovebox::session
