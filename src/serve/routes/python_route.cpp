// The channel of a Python session, over a WebSocket. A text frame holds a message as JSON, a binary
// frame the length of the JSON, the JSON and the bytes it refers to
// (python/channel/python_message.h).
#include "async/task_group.h"
#include "serve/helpers.h"
#include "serve/routes/handlers.h"
#include "session/python/python_host.h"

#include <boost/json/serialize.hpp>

namespace glovebox::serve {
namespace {

constexpr std::uint16_t kNormalClosure = 1000;
constexpr std::uint16_t kProtocolError = 1002;

// How the reading half ended, for the writing half.
struct Reading {
  std::string problem;
};

session::PythonMessage to_message(SocketMessage received) {
  using Form = session::PythonMessage::Form;
  const bool is_text = received.kind == SocketMessage::Kind::Text;
  return {is_text ? Form::Text : Form::Binary, std::move(received.bytes)};
}

// Hands messages to the session until the client goes or says what is no message.
asio::awaitable<void> read_client(std::shared_ptr<WebSocket> socket,
                                  std::shared_ptr<session::PythonHost> host, std::uint64_t client,
                                  std::shared_ptr<Reading> reading) {
  for (;;) {
    // A client that does not take its answers is not heard.
    const bool is_there = co_await host->await_room(client);
    if (!is_there) break;
    auto received = co_await socket->receive();
    if (!received) break;
    session::PythonMessage message = to_message(*std::move(received));
    const auto taken = co_await host->take_from_client(std::move(message));
    if (taken) continue;
    reading->problem = taken.error().message;
    break;
  }
  host->stop_waiting(client);
}

// Sends what comes until the session is over or the client gone. Whether the session is over.
asio::awaitable<bool> write_client(std::shared_ptr<WebSocket> socket,
                                   std::shared_ptr<session::PythonHost> host) {
  using Form = session::PythonMessage::Form;
  for (;;) {
    const auto message = co_await host->next();
    if (!message) co_return message.error().code == Code::NotFound;
    const auto kind =
        message->form == Form::Text ? SocketMessage::Kind::Text : SocketMessage::Kind::Binary;
    const auto sent = co_await socket->send(kind, message->bytes);
    if (!sent) co_return false;
  }
}

}  // namespace

asio::awaitable<Answer> open_python(Call& call) {
  CO_TRY(const session::SessionInfo info, find_session(call));
  CO_TRY(const std::shared_ptr<session::PythonHost> host,
         or_refuse(call.service.manager.python(info.id)));
  if (call.request.find_header("upgrade") == nullptr) {
    co_return refuse(426, "UPGRADE_REQUIRED", "the channel of a Python session is a WebSocket");
  }
  const auto attached = host->attach();
  if (!attached) co_return refuse(409, "CHANNEL_IN_USE", "{}", attached.error().message);
  auto upgraded = co_await call.exchange.upgrade();
  if (!upgraded) {
    host->detach();
    co_return already_sent();
  }
  const std::shared_ptr<WebSocket> socket = *std::move(upgraded);
  socket->allow_large_messages(python::kMaxMessage);
  audit(call, "python", {{"session_id", info.id}});
  const auto reading = std::make_shared<Reading>();
  session::spawn_owning(call.service.io.get_executor(),
                        read_client(socket, host, *attached, reading));
  const bool is_over = co_await write_client(socket, host);
  host->detach();
  const bool is_wrong = !reading->problem.empty();
  const std::string reason = is_wrong ? reading->problem.substr(0, 120) : is_over ? "over" : "gone";
  co_await socket->close(is_wrong ? kProtocolError : kNormalClosure, reason);
  co_return already_sent();
}

}  // namespace glovebox::serve
