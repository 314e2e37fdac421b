// Requests and answers as plain values. Handlers see these and an Exchange (exchange.h); what an
// HTTP library has to do with it stays in connection.cpp.
#pragma once

#include "async/co_try.h"  // IWYU pragma: export
#include "base/result.h"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::serve {

enum class Method : std::uint8_t { Get, Head, Post, Put, Patch, Delete, Options, Other };
std::string_view to_text(Method method);

// Names of headers are lower-case; names and values of query fields are decoded.
struct Field {
  std::string name;
  std::string value;
  friend bool operator==(const Field&, const Field&) = default;
};

// Who is on the other side: of a unix socket the kernel says who connected.
struct Peer {
  std::string address;  // "127.0.0.1:5000", "unix"
  // Whose connections are counted together: the address without its port, of IPv6 the network of 64
  // bits that one host has to itself.
  std::string host;
  bool is_local = false;  // of a unix socket
  std::optional<uid_t> uid;
};

struct Request {
  Method method = Method::Other;
  std::string path;  // as sent, without the query
  std::vector<Field> query;
  std::vector<Field> headers;
  std::vector<std::string> parts;  // what stood for {...} in the route, decoded
  std::optional<std::uint64_t> content_length;
  Peer peer;

  // The first header or query field of that name; nullptr when there is none.
  const std::string* find_header(std::string_view lower_name) const;
  const std::string* find_query(std::string_view name) const;
  std::vector<std::string> all_query(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::vector<Field> headers;
  std::string body;
};

// The handler has sent everything itself.
inline constexpr int kAlreadySent = 0;
inline Response already_sent() {
  return Response{.status = kAlreadySent, .headers = {}, .body = {}};
}

// 200 with Content-Length 0: clients take a missing length for a body that was cut off.
Response empty_answer();
// Names of a box's files are in many answers: bytes that are no UTF-8 become U+FFFD.
Response json_answer(int status, const boost::json::value& body);
Response text_answer(int status, std::string body,
                     std::string_view type = "text/plain; charset=utf-8");

// What a request is refused with. Every error has a JSON body {"code", "message", ...}: clients
// take one without for a success.
struct ApiError {
  int status = 500;
  std::string code = "RUNTIME_ERROR";
  std::string message;
  boost::json::object more;         // further members of the body
  std::vector<Field> headers = {};  // Retry-After, Allow
};
template <class... Args>
tl::unexpected<ApiError> refuse(int status, std::string_view code, fmt::format_string<Args...> text,
                                Args&&... args) {
  return tl::unexpected<ApiError>(
      ApiError{.status = status,
               .code = std::string(code),
               .message = fmt::format(text, std::forward<Args>(args)...),
               .more = {},
               .headers = {}});
}
Response to_response(const ApiError& error);

// What a request is refused with whose body could not be read (Exchange::read_body, read_some): 408
// late, 413 too large, else 400 with the code `otherwise`.
ApiError body_refusal(const Error& error, std::string_view otherwise);

using Answer = Result<Response, ApiError>;

std::string_view reason_of(int status);

}  // namespace glovebox::serve
