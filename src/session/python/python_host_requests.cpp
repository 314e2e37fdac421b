// What the interpreter asks for: passed on to the client, or carried out by the broker.
#include "python/channel/python_head.h"
#include "session/python/python_broker.h"
#include "session/python/python_host.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <algorithm>

namespace glovebox::session {
namespace {

namespace json = boost::json;

// What a request tried, in the words of a denial: places that differ are told one by one.
std::string attempted(const json::object& head) {
  std::string words =
      fmt::format("request:{}.{}", text_at(head, "capability"), text_at(head, "action"));
  const json::value* payload = head.if_contains("payload");
  if (payload == nullptr || !payload->is_object()) return words;
  const std::string host = text_at(payload->as_object(), "host");
  if (host.empty()) return words;
  return fmt::format("{} {}:{}", words, host, number_at(payload->as_object(), "port").value_or(0));
}

}  // namespace

Result<void> PythonHost::take_request(const PythonHead& scanned, PythonMessage message) {
  const json::object& head = scanned.members;
  const auto id = id_of(head);
  if (text_at(head, "ev") != "request" || !id || asked_.contains(*id) || served_.contains(*id)) {
    return fail(Code::Invalid, "the interpreter asked for what is no request");
  }
  if (asked_.size() + served_.size() >= kMaxRequests) {
    return fail(Code::Exhausted, "the interpreter has {} requests under way", kMaxRequests);
  }
  plan_.last_request = std::max(plan_.last_request, *id);
  if (handled_.contains(text_at(head, "capability"))) {
    asked_.insert(*id);
    give_counted(std::move(message));
    return {};
  }
  const std::size_t size = message.bytes.size();
  note_taken(size);
  if (request_bytes_ + size > kMaxRequestBytes || scanned.values > kMostWholeValues) {
    refuse_request(*id, scanned.values > kMostWholeValues
                            ? fmt::format("a request of more than {} values", kMostWholeValues)
                            : "too much is asked for at a time");
    return {};
  }
  served_.insert(*id);
  request_bytes_ += size;
  asio::co_spawn(loop_, serve_request(shared_from_this(), *id, std::move(message)), asio::detached);
  return {};
}

void PythonHost::refuse_request(std::uint64_t id, std::string_view why) {
  const json::object error = {{"id", id},
                              {"error", {{"type", "ValueError"}, {"message", std::string(why)}}}};
  // An interpreter that has ended needs no answer.
  (void)worker_->send(PythonOrder::Reply, number_, text_message(error));
}

asio::awaitable<void> PythonHost::serve_request(std::shared_ptr<PythonHost> self, std::uint64_t id,
                                                PythonMessage message) {
  const std::size_t size = message.bytes.size();
  const std::uint64_t seating = self->seating_;
  const auto turn = co_await self->serving_->take(WhenBusy::Wait);
  std::string action;
  std::string problem = turn ? "" : turn.error().message;
  BrokerAnswer answer;
  if (turn) {
    auto head = read_whole(message);
    if (head) {
      action = attempted(*head);
      const std::shared_ptr<PythonBroker> broker = self->broker_;
      answer = co_await broker->execute(*std::move(head), std::move(message));
    } else {
      problem = head.error().message;
    }
  }
  self->request_bytes_ -= size;
  if (self->end_ || seating != self->seating_) co_return;  // who asked is gone
  self->served_.erase(id);
  if (!problem.empty()) co_return self->refuse_request(id, problem);
  if (!answer.denied.empty()) {
    self->tell_denial({cut_text(answer.denied, kMostName), cut_text(action, 4 * kMostName),
                       "authority:" + cut_text(answer.denied, kMostName)});
  }
  // An interpreter that has ended needs no answer.
  (void)self->worker_->send(PythonOrder::Reply, self->number_, answer.message);
}

}  // namespace glovebox::session
