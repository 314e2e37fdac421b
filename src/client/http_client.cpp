#include "client/http_client.h"

#include "base/file.h"
#include "base/strict_json.h"
#include "client/client_connection.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <boost/json/value.hpp>

#include <array>
#include <charconv>

#include <unistd.h>

namespace glovebox::app {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Problem = boost::system::error_code;

constexpr std::size_t kPiece = std::size_t{256} << 10;

tl::unexpected<Error> broken(const Problem& problem, std::string_view what) {
  return tl::unexpected(
      Error{Code::Os, problem.value(), fmt::format("{}: {}", what, problem.message())});
}

Result<void> connect_socket(HttpClient::Connection& to) {
  const ServiceAddress& address = to.address;
  Problem problem;
  if (!address.socket.empty()) {
    if (address.socket.size() >= sizeof(sockaddr_un::sun_path)) {
      return fail(Code::Invalid, "{}: too long for a socket's path", address.socket);
    }
    to.socket.connect(asio::local::stream_protocol::endpoint(address.socket), problem);
    if (!problem) return {};
    if (problem.value() == ENOENT || problem.value() == ECONNREFUSED) {
      return fail(Code::NotFound, "no service listens on {}", address.socket);
    }
    return broken(problem, address.socket);
  }
  const bool local = address.host == "localhost";
  const auto ip = asio::ip::make_address(local ? "127.0.0.1" : address.host, problem);
  if (problem) {
    return fail(Code::Invalid,
                "{}: write the service's address as numbers; this program looks up "
                "no names",
                address.host);
  }
  const auto port = static_cast<unsigned short>(std::stoul(address.port));
  to.socket.connect(asio::ip::tcp::endpoint(ip, port), problem);
  if (!problem) return {};
  return fail(Code::NotFound, "no service listens on {}:{}: {}", address.host, address.port,
              problem.message());
}

template <class Body>
http::request<Body> make_request(const HttpClient::Connection& to, const Call& call) {
  http::request<Body> request;
  request.method_string(boost::beast::string_view(call.method.data(), call.method.size()));
  request.target(call.target);
  request.version(11);
  request.set(http::field::host, to.host_header());
  request.set(http::field::accept,
              boost::beast::string_view(call.accept.data(), call.accept.size()));
  request.set(http::field::user_agent, "glovebox");
  if (!to.address.token.empty()) {
    request.set(http::field::authorization, "Bearer " + to.address.token);
  }
  for (const auto& [name, value] : call.headers) request.set(name, value);
  return request;
}

Result<void> write_call(HttpClient::Connection& to, const Call& call) {
  auto request = make_request<http::string_body>(to, call);
  if (!call.body.empty()) {
    request.set(http::field::content_type,
                boost::beast::string_view(call.type.data(), call.type.size()));
    request.body() = call.body;
  }
  request.prepare_payload();
  Problem problem;
  http::write(to.socket, request, problem);
  if (problem) return broken(problem, "send a request to the service");
  return {};
}

Result<void> write_file(HttpClient::Connection& to, const BodyPart& part) {
  std::string piece(kPiece, '\0');
  std::uint64_t left = part.size;
  while (left > 0) {
    const ssize_t count =
        ::read(part.file.get(), piece.data(), std::min<std::uint64_t>(left, piece.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_os(errno, "read the file");
    if (count == 0) return fail(Code::Os, "the file has become shorter while it was sent");
    Problem problem;
    asio::write(to.socket, asio::buffer(piece.data(), static_cast<std::size_t>(count)), problem);
    if (problem) return broken(problem, "send a file to the service");
    left -= static_cast<std::uint64_t>(count);
  }
  return {};
}

// Reads a reply. The body of a success goes to the sink, if there is one.
Result<Reply> read_reply(HttpClient::Connection& from, const HttpClient::Sink* sink) {
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  Problem problem;
  http::read_header(from.socket, from.buffer, parser, problem);
  if (problem) return broken(problem, "read the service's answer");
  Reply reply;
  reply.status = parser.get().result_int();
  reply.type = std::string(parser.get()[http::field::content_type]);
  for (const auto& field : parser.get()) {
    reply.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  std::string piece(kPiece, '\0');
  while (!parser.is_done()) {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    http::read_some(from.socket, from.buffer, parser, problem);
    if (problem == http::error::need_buffer) problem = {};
    if (problem) return broken(problem, "read the service's answer");
    const std::string_view bytes(piece.data(), piece.size() - parser.get().body().size);
    if (sink != nullptr && reply.ok()) {
      TRY_VOID((*sink)(bytes));
    } else if (reply.body.size() + bytes.size() > HttpClient::kMostBody) {
      return fail(Code::Exhausted, "the service's answer is larger than {} bytes",
                  HttpClient::kMostBody);
    } else {
      reply.body += bytes;
    }
  }
  return reply;
}

}  // namespace

Result<ServiceAddress> parse_service_address(std::string_view text) {
  ServiceAddress address;
  std::string_view rest = text;
  const auto take = [&](std::string_view prefix) {
    const bool there = rest.starts_with(prefix);
    if (there) rest.remove_prefix(prefix.size());
    return there;
  };
  if (take("unix://") || rest.starts_with('/')) {
    if (!rest.starts_with('/')) {
      return fail(Code::Invalid, "'{}': a socket's path is absolute, as unix:///run/x.sock", text);
    }
    address.socket = std::string(rest);
    return address;
  }
  if (take("https://")) {
    return fail(Code::Unsupported,
                "'{}': this command speaks no TLS; reach the service by its socket or by ssh",
                text);
  }
  (void)take("http://");
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t colon = rest.rfind(':');
  address.host = std::string(rest.substr(0, colon));
  address.port = colon == std::string_view::npos ? "44772" : std::string(rest.substr(colon + 1));
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  unsigned port = 0;
  const char* const end = address.port.data() + address.port.size();
  const auto parsed = std::from_chars(address.port.data(), end, port);
  if (address.host.empty() || parsed.ptr != end || port == 0 || port > 65535) {
    return fail(Code::Invalid,
                "'{}' is no service's address: write unix:///run/x.sock or http://HOST:PORT", text);
  }
  return address;
}

std::string escape_query(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string escaped;
  for (const char each : text) {
    if (kPlain.find(each) != std::string_view::npos) {
      escaped += each;
    } else {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(each));
    }
  }
  return escaped;
}

std::string Reply::header(std::string_view name) const {
  for (const auto& [known, value] : headers) {
    if (known == name) return value;
  }
  return {};
}

Error refusal_of(const Reply& reply) {
  const auto value = parse_strict_json(reply.body, kAnyLength);
  std::string message = fmt::format("the service answered {}", reply.status);
  if (value && value->is_object()) {
    for (const char* name : {"message", "error"}) {
      const auto* text = value->as_object().if_contains(name);
      if (text != nullptr && text->is_string()) {
        message = std::string(text->as_string());
        break;
      }
    }
  }
  const Code code = reply.status == 404   ? Code::NotFound
                    : reply.status == 400 ? Code::Invalid
                    : reply.status < 500  ? Code::Denied
                                          : Code::Os;
  return Error{code, 0, message};
}

HttpClient::HttpClient(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpClient> HttpClient::connect(const ServiceAddress& address) {
  auto connection = std::make_unique<Connection>(address);
  TRY_VOID(connect_socket(*connection));
  return HttpClient(std::move(connection));
}

Result<Reply> HttpClient::call(const Call& call) {
  TRY_VOID(write_call(*connection_, call));
  return read_reply(*connection_, nullptr);
}

Result<Reply> HttpClient::stream(const Call& call, const Sink& sink) {
  TRY_VOID(write_call(*connection_, call));
  return read_reply(*connection_, &sink);
}

Result<Reply> HttpClient::send(const Call& call, const std::vector<BodyPart>& parts) {
  auto request = make_request<http::empty_body>(*connection_, call);
  std::uint64_t bytes = 0;
  for (const BodyPart& part : parts) bytes += part.text.size() + part.size;
  request.content_length(bytes);
  request.set(http::field::content_type,
              boost::beast::string_view(call.type.data(), call.type.size()));
  http::request_serializer<http::empty_body> serializer(request);
  Problem problem;
  http::write_header(connection_->socket, serializer, problem);
  if (problem) return broken(problem, "send a request to the service");
  for (const BodyPart& part : parts) {
    asio::write(connection_->socket, asio::buffer(part.text), problem);
    if (problem) return broken(problem, "send a request to the service");
    TRY_VOID(write_file(*connection_, part));
  }
  return read_reply(*connection_, nullptr);
}

}  // namespace glovebox::app
