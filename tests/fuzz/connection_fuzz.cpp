// The bytes of a whole connection: whatever a client sends, the server answers with whole HTTP
// answers or closes, and serves the next client as usual.
//
// A real server on a socket, and a handler that uses all of an exchange: it reads the body, and
// answers in one piece or in chunks, by the path.
//
//   ./glovebox_connection_fuzz -max_total_time=300 FOUND tests/fuzz/corpus/connection
#include "base/file.h"
#include "http/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

using namespace glovebox;
using namespace glovebox::serve;

void check(bool holds) {
  if (!holds) std::abort();
}

asio::awaitable<Response> answer(Exchange& exchange) {
  const bool in_chunks = exchange.request().path.ends_with("chunks");
  auto body = co_await exchange.read_body(4'096);
  if (!body) {
    co_return to_response(ApiError{.status = 400, .message = body.error().message, .more = {}});
  }
  if (!in_chunks) co_return text_answer(200, *std::move(body));
  Response head;
  exchange.begin(std::move(head), Length{});
  if (const auto sent = co_await exchange.send(*body); !sent) co_return already_sent();
  (void)co_await exchange.finish("end");  // the client may be gone
  co_return already_sent();
}

// A server that lives as long as the process.
class Edge {
 public:
  Edge() {
    address_.sun_family = AF_UNIX;
    UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // The kernel chooses an abstract name.
    check(::bind(listener.get(), generic(), sizeof(address_.sun_family)) == 0);
    size_ = sizeof(address_);
    check(::getsockname(listener.get(), generic(), &size_) == 0);
    check(::listen(listener.get(), 8) == 0);
    server_.listen(
        std::make_shared<Listener>(io_, std::move(listener), SocketFamily::Unix, "fuzz"));
  }

  // Everything that the server says to a client that sends this and then nothing more.
  std::string talk(std::string_view bytes) {
    const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    check(::connect(client.get(), generic(), size_) == 0);
    check(::fcntl(client.get(), F_SETFL, O_NONBLOCK) == 0);
    std::string told;
    for (bool is_shut = false;;) {
      if (!bytes.empty()) {
        const ssize_t sent = ::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
        if (sent < 0 && errno != EAGAIN) bytes = {};  // it has closed
      } else if (!is_shut) {
        is_shut = true;
        (void)::shutdown(client.get(), SHUT_WR);
      }
      io_.restart();
      io_.poll();
      char buffer[65'536];
      const ssize_t got = ::recv(client.get(), buffer, sizeof(buffer), 0);
      if (got > 0) told.append(buffer, static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN)) return told;
    }
  }

 private:
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&address_); }

  asio::io_context io_{1};
  Server server_{io_, HttpLimits{}, answer, [](const std::string&) { std::abort(); }};
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find("\r\n");
  check(end != std::string_view::npos);
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 2);
  return line;
}

std::uint64_t number(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  check(problem == std::errc() && end == text.data() + text.size());
  return value;
}

void take_bytes(std::string_view& text, std::uint64_t count) {
  check(text.size() >= count);
  text.remove_prefix(count);
}

// What was said is whole answers, one after the other. A HEAD has no body although it has a length,
// so after one nothing more is looked at.
void check_answers(std::string_view told, bool has_head) {
  while (!told.empty()) {
    const std::string_view status = take_line(told);
    check(status.starts_with("HTTP/1.1 ") && status.size() >= 12);
    const std::uint64_t code = number(status.substr(9, 3), 10);
    bool is_chunked = false;
    bool is_open = true;
    std::uint64_t length = 0;
    for (std::string_view line = take_line(told); !line.empty(); line = take_line(told)) {
      if (line.starts_with("Content-Length: ")) length = number(line.substr(16), 10);
      if (line.starts_with("Transfer-Encoding: chunked")) is_chunked = true;
      if (line == "Connection: close") is_open = false;
      check(line.find(": ") != std::string_view::npos);
    }
    if (code == 100) continue;
    if (has_head) return;
    if (!is_chunked && !is_open && length == 0) return;  // its body ends with the connection
    if (!is_chunked) {
      take_bytes(told, length);
      continue;
    }
    while (const std::uint64_t size = number(take_line(told), 16)) {
      take_bytes(told, size);
      check(take_line(told).empty());
    }
    check(take_line(told).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Edge& edge = *new Edge;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_answers(edge.talk(bytes), bytes.find("HEAD") != std::string_view::npos);
  const std::string next = edge.talk("GET /fine HTTP/1.1\r\n\r\n");
  check(next.starts_with("HTTP/1.1 200 "));
  return 0;
}
