#include "mcp/http_front.h"

#include "async/event.h"
#include "base/file.h"
#include "base/strict_json.h"
#include "base/uuid.h"
#include "http/auth.h"
#include "http/listener.h"
#include "http/server.h"
#include "mcp/rpc.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <csignal>
#include <deque>
#include <tuple>
#include <utility>

namespace glovebox::mcp {
namespace {

using serve::Exchange;
using serve::Response;

constexpr std::string_view kPath = "/mcp";
constexpr std::size_t kMaxClients = 16;
// A client that has said nothing for so long, and waits for nothing, is ended.
constexpr std::chrono::minutes kIdle{60};
constexpr std::chrono::seconds kSweep{30};
// So many clients that were ended without asking for it are told why when they come back.
constexpr std::size_t kMostRemembered = 256;

struct Client;

// A request that waits for its answer. It is there until its call is over, also when no client is
// connected any more.
struct Waiter {
  Waiter(asio::io_context& loop, std::shared_ptr<Client> whose)
      : wakeup(loop), client(std::move(whose)) {}

  bool is_done() const { return answer || is_unanswered || is_gone; }

  session::Wakeup wakeup;
  std::shared_ptr<Client> client;  // its server lives while it has a call under way
  std::string token;  // of its progress, as JSON; empty: the client does not want to hear of it
  std::deque<std::string> notes;  // notifications, not sent yet
  std::optional<std::string> answer;
  bool is_unanswered = false;  // the call is over and gets no answer
  bool is_gone = false;        // the client has hung up
};

struct Client {
  std::unique_ptr<Server> server;
  std::map<std::string, std::shared_ptr<Waiter>, std::less<>> waiting;  // by the id, as JSON
  Clock::time_point last_use = Clock::now();
};

Response rpc_error(int status, const json::value& id, int code, std::string_view message) {
  return serve::text_answer(status, error_line(id, code, message), "application/json");
}

std::string without_newline(std::string line) {
  while (line.ends_with('\n')) line.pop_back();
  return line;
}

bool takes_events(const serve::Request& request) {
  const std::string* accept = request.find_header("accept");
  return accept != nullptr && accept->find("text/event-stream") != std::string::npos;
}

// A caller without a good token. What the service's own clients look for in a 401 (http/auth.cpp)
// means nothing to a client of MCP.
Response auth_refusal(const serve::ApiError& error) {
  if (error.status != 401) return serve::to_response(error);
  Response refused =
      rpc_error(401, nullptr, kInvalidRequest,
                "send 'Authorization: Bearer TOKEN', with the token that this server "
                "was started with ($GLOVEBOX_MCP_TOKEN or --token-file)");
  refused.headers.insert(refused.headers.end(), error.headers.begin(), error.headers.end());
  return refused;
}

std::string progress_token(const json::object& params) {
  const json::value* meta = params.if_contains("_meta");
  if (meta == nullptr || !meta->is_object()) return {};
  const json::value* token = meta->as_object().if_contains("progressToken");
  return token == nullptr ? "" : json::serialize(*token);
}

class HttpFront {
 public:
  HttpFront(asio::io_context& loop, const ServerSettings& settings, serve::Auth auth)
      : loop_(loop),
        settings_(settings),
        auth_(std::move(auth)),
        http_(
            loop, limits(), [this](Exchange& exchange) { return answer(exchange); },
            [](const std::string& bug) {
              (void)write_all(BorrowedFd(2), "glovebox: a bug: " + bug + "\n");  // best effort
            }),
        timer_(loop),
        signals_(loop, SIGTERM, SIGINT, SIGHUP) {}

  void listen(std::shared_ptr<serve::Listener> listener) {
    http_.listen(std::move(listener));
    signals_.async_wait([this](const boost::system::error_code& problem, int /*number*/) {
      if (!problem) asio::co_spawn(loop_, finish(), asio::detached);
    });
    asio::co_spawn(loop_, sweep(), asio::detached);
  }

 private:
  static serve::HttpLimits limits() {
    serve::HttpLimits limits;
    limits.connections = 128;
    limits.requests = 128;
    limits.kept_percent = 0;  // it listens on no unix socket
    limits.unknown_per_peer = 64;
    return limits;
  }

  asio::awaitable<Response> answer(Exchange& exchange) {
    const serve::Request& request = exchange.request();
    if (auto identity = auth_.identify(request); !identity) {
      co_return auth_refusal(identity.error());
    }
    exchange.accept_caller();
    if (request.path != kPath) co_return rpc_error(404, nullptr, kInvalidRequest, "there is /mcp");
    const std::string* version = request.find_header("mcp-protocol-version");
    if (version != nullptr && !is_known_version(*version)) {
      co_return rpc_error(400, nullptr, kInvalidRequest,
                          "that protocol version is not spoken here");
    }
    if (request.method == serve::Method::Delete) co_return co_await forget(request);
    if (request.method == serve::Method::Post) co_return co_await take(exchange);
    Response refused = rpc_error(405, nullptr, kInvalidRequest, "there are POST and DELETE");
    refused.headers.push_back({"Allow", "POST, DELETE"});
    co_return refused;
  }

  asio::awaitable<Response> take(Exchange& exchange) {
    auto body = co_await exchange.read_body(kMaxLine);
    if (!body) {
      const int status = serve::body_refusal(body.error(), "").status;
      co_return rpc_error(status, nullptr, kInvalidRequest, body.error().message);
    }
    const Message message = parse_message(*body);
    if (const auto* malformed = std::get_if<Malformed>(&message)) {
      co_return rpc_error(400, malformed->id, malformed->code, malformed->message);
    }
    const auto* request = std::get_if<Request>(&message);
    if (request != nullptr && request->method == "initialize") {
      co_return co_await initialize(exchange, *request, *body);
    }
    const std::string* id = exchange.request().find_header("mcp-session-id");
    if (id == nullptr) {
      co_return rpc_error(400, nullptr, kInvalidRequest, "the header Mcp-Session-Id is missing");
    }
    const auto found = clients_.find(*id);
    if (found == clients_.end()) {
      co_return rpc_error(404, nullptr, kInvalidRequest, why_gone(*id));
    }
    const std::shared_ptr<Client> client = found->second;
    client->last_use = Clock::now();
    if (request != nullptr) co_return co_await carry(exchange, client, *request, *body);
    client->server->take_line(*body);
    co_return Response{.status = 202, .headers = {}, .body = {}};
  }

  asio::awaitable<Response> initialize(Exchange& exchange, const Request& request,
                                       const std::string& body) {
    co_await make_room();
    if (clients_.size() >= kMaxClients) {
      Response refused = rpc_error(429, request.id, kInternalError,
                                   "too many clients, and code of each is running");
      refused.headers.push_back({"Retry-After", "5"});
      co_return refused;
    }
    auto id = session::make_uuid();
    if (!id) co_return rpc_error(500, request.id, kInternalError, id.error().message);
    const auto client = std::make_shared<Client>();
    client->server = make_server(client);
    if (auto opened = client->server->open_log(); !opened) {
      co_return rpc_error(500, request.id, kInternalError, opened.error().message);
    }
    clients_.emplace(*id, client);
    Response answered = co_await carry(exchange, client, request, body);
    answered.headers.push_back({"Mcp-Session-Id", *id});
    co_return answered;
  }

  std::unique_ptr<Server> make_server(const std::weak_ptr<Client>& client) {
    const auto send = [this, client](std::string line) {
      if (const auto there = client.lock()) pass_on(*there, std::move(line));
    };
    const auto unanswered = [this, client](const json::value& id) {
      const auto there = client.lock();
      const auto waiter = there ? take_waiter(*there, id) : nullptr;
      if (!waiter) return;
      waiter->is_unanswered = true;
      waiter->wakeup.notify();
    };
    return std::make_unique<Server>(loop_, settings_, send, unanswered);
  }

  // The request whose call is over; nullptr when there is none.
  std::shared_ptr<Waiter> take_waiter(Client& client, const json::value& id) {
    const auto found = client.waiting.find(json::serialize(id));
    if (found == client.waiting.end()) return nullptr;
    const std::shared_ptr<Waiter> waiter = found->second;
    client.waiting.erase(found);
    // This is called by the server, which goes with its client: not before it has returned.
    asio::post(loop_, [last = std::move(waiter->client)] {});
    return waiter;
  }

  // What the server says goes to the request that it is about.
  void pass_on(Client& client, std::string line) {
    const auto value = parse_strict_json(line, kAnyLength);
    const json::object* message = value ? value->if_object() : nullptr;
    if (message == nullptr) return;
    if (const json::value* id = message->if_contains("id")) {
      const auto waiter = take_waiter(client, *id);
      if (!waiter) return;
      waiter->answer = without_newline(std::move(line));
      waiter->wakeup.notify();
      return;
    }
    const json::value* params = message->if_contains("params");
    if (params == nullptr || !params->is_object()) return;
    const json::value* token = params->as_object().if_contains("progressToken");
    if (token == nullptr) return;
    const std::string wanted = json::serialize(*token);
    for (const auto& [key, waiter] : client.waiting) {
      if (waiter->token != wanted) continue;
      waiter->notes.push_back(without_newline(line));
      waiter->wakeup.notify();
    }
  }

  asio::awaitable<Response> carry(Exchange& exchange, std::shared_ptr<Client> client,
                                  const Request& request, const std::string& body) {
    const std::string key = json::serialize(request.id);
    if (client->waiting.contains(key)) {
      co_return rpc_error(400, request.id, kInvalidRequest, "a call with this id is under way");
    }
    const auto waiter = std::make_shared<Waiter>(loop_, client);
    const bool streams = takes_events(exchange.request());
    if (streams) waiter->token = progress_token(request.params);
    client->waiting.emplace(key, waiter);
    client->server->take_line(body);
    const auto watch = exchange.watch_client([waiter] { abandon(*waiter); });
    if (!waiter->token.empty()) co_return co_await stream(exchange, waiter);
    while (!waiter->is_done()) {
      const session::Woken woken = co_await waiter->wakeup.wait();
      if (woken == session::Woken::Canceled) abandon(*waiter);
    }
    client->last_use = Clock::now();
    if (waiter->is_unanswered) co_return Response{.status = 202, .headers = {}, .body = {}};
    if (!waiter->answer) co_return serve::already_sent();
    co_return serve::text_answer(200, std::move(waiter->answer).value_or(""), "application/json");
  }

  // No client listens any more. The call goes on, and what it says is not kept.
  static void abandon(Waiter& waiter) {
    waiter.is_gone = true;
    waiter.token.clear();
    waiter.notes.clear();
    waiter.wakeup.notify();
  }

  static std::string event_of(const std::string& line) {
    return fmt::format("event: message\ndata: {}\n\n", line);
  }

  // Progress as it comes, and then the answer if there is one.
  static asio::awaitable<Response> stream(Exchange& exchange, std::shared_ptr<Waiter> waiter) {
    Response head;
    head.headers = {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-cache"}};
    exchange.begin(std::move(head), serve::Length{});
    for (;;) {
      while (!waiter->notes.empty()) {
        const std::string event = event_of(waiter->notes.front());
        waiter->notes.pop_front();
        const auto sent = co_await exchange.send(event);
        if (!sent) abandon(*waiter);
      }
      if (waiter->is_done()) break;
      const session::Woken woken = co_await waiter->wakeup.wait();
      if (woken == session::Woken::Canceled) abandon(*waiter);
    }
    if (waiter->is_gone) co_return serve::already_sent();
    const std::string last = waiter->answer ? event_of(*waiter->answer) : "";
    (void)co_await exchange.finish(last);  // the client may be gone
    co_return serve::already_sent();
  }

  asio::awaitable<Response> forget(const serve::Request& request) {
    const std::string* id = request.find_header("mcp-session-id");
    const auto found = id == nullptr ? clients_.end() : clients_.find(*id);
    if (found == clients_.end()) {
      co_return rpc_error(404, nullptr, kInvalidRequest, "no such session");
    }
    const std::shared_ptr<Client> client = found->second;
    clients_.erase(found);
    co_await client->server->stop();
    co_return serve::empty_answer();
  }

  // Ends a client that did not ask for it. What it had is gone; it is told when it comes back, and
  // the log of this server says so now.
  asio::awaitable<void> end(std::string id, std::string_view cause) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) co_return;
    const std::shared_ptr<Client> client = found->second;
    clients_.erase(found);
    const auto idle =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - client->last_use);
    std::string why =
        fmt::format("the session was ended {}, after {} s without a call", cause, idle.count());
    if (client->server->boxes() > 0) {
      why += "; its interpreters, and files of its boxes that were not committed, are gone";
    }
    (void)write_all(BorrowedFd(2), fmt::format("glovebox: client {}: {}\n", id, why));
    ended_.emplace_back(std::move(id), std::move(why));
    if (ended_.size() > kMostRemembered) ended_.pop_front();
    co_await client->server->stop();
  }

  std::string why_gone(std::string_view id) const {
    const auto found = std::ranges::find(ended_, id, &std::pair<std::string, std::string>::first);
    if (found == ended_.end()) return "no such session; initialize again";
    return found->second + "; initialize again";
  }

  // Many clients never say that they are done. When there are too many the one that was silent for
  // the longest goes; those without a box, which lose nothing, before the others. One with a call
  // or code under way stays.
  asio::awaitable<void> make_room() {
    while (clients_.size() >= kMaxClients) {
      const auto rank = [](const auto& entry) {
        const Client& client = *entry.second;
        const bool is_busy = !client.waiting.empty() || client.server->is_busy();
        return std::tuple(is_busy, client.server->boxes() > 0, client.last_use);
      };
      const auto least = std::ranges::min_element(clients_, {}, rank);
      if (std::get<0>(rank(*least))) co_return;
      std::string id = least->first;
      co_await end(std::move(id), "to make room for another client");
    }
  }

  asio::awaitable<void> sweep() {
    for (;;) {
      timer_.expires_after(kSweep);
      const auto [problem] = co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
      if (problem) co_return;
      std::vector<std::string> idle;
      for (const auto& [id, client] : clients_) {
        if (client->waiting.empty() && Clock::now() - client->last_use >= kIdle) idle.push_back(id);
      }
      for (std::string& id : idle) co_await end(std::move(id), "because it was idle");
    }
  }

  asio::awaitable<void> finish() {
    timer_.cancel();
    const auto clients = std::exchange(clients_, {});
    for (const auto& [id, client] : clients) co_await client->server->stop();
    co_await http_.drain(std::chrono::seconds(1));
    // Calls that did not end hold their clients.
    for (const auto& [id, client] : clients) client->waiting.clear();
    loop_.stop();
  }

  asio::io_context& loop_;
  ServerSettings settings_;
  serve::Auth auth_;
  serve::Server http_;
  asio::steady_timer timer_;
  asio::signal_set signals_;
  std::map<std::string, std::shared_ptr<Client>, std::less<>> clients_;
  std::deque<std::pair<std::string, std::string>> ended_;  // by their id: why
};

}  // namespace

Result<void> serve_http(const ServerSettings& settings, const ListenSettings& listen) {
  ::signal(SIGPIPE, SIG_IGN);
  TRY(const serve::TcpAddress address, serve::parse_tcp_address(listen.address));
  if (!address.is_loopback) {
    return fail(Code::Denied, "--listen {}: only this host's own addresses", listen.address);
  }
  serve::Auth auth;
  serve::Identity identity{
      .name = "token", .scopes = {serve::Scope::Admin}, .ceiling = nullptr, .max_sessions = 0};
  TRY_VOID(auth.add_token(listen.token, std::move(identity)));
  asio::io_context loop(1);
  TRY(std::shared_ptr<serve::Listener> listener, serve::listen_tcp(loop, address));
  const std::string where =
      fmt::format("glovebox: listening on http://{}{}\n", listener->name, kPath);
  HttpFront front(loop, settings, std::move(auth));
  front.listen(std::move(listener));
  TRY_VOID(write_all(BorrowedFd(2), where));
  loop.run();
  return {};
}

}  // namespace glovebox::mcp
