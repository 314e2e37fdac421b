#include "http/message.h"

#include "base/utf8.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <array>
#include <cerrno>

namespace glovebox::serve {
namespace {

const std::string* find_in(const std::vector<Field>& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &found->value;
}

struct Reason {
  int status;
  std::string_view text;
};

constexpr std::array kReasons = {
    Reason{100, "Continue"},
    Reason{101, "Switching Protocols"},
    Reason{200, "OK"},
    Reason{201, "Created"},
    Reason{202, "Accepted"},
    Reason{206, "Partial Content"},
    Reason{304, "Not Modified"},
    Reason{400, "Bad Request"},
    Reason{401, "Unauthorized"},
    Reason{403, "Forbidden"},
    Reason{404, "Not Found"},
    Reason{405, "Method Not Allowed"},
    Reason{408, "Request Timeout"},
    Reason{409, "Conflict"},
    Reason{410, "Gone"},
    Reason{411, "Length Required"},
    Reason{412, "Precondition Failed"},
    Reason{413, "Content Too Large"},
    Reason{415, "Unsupported Media Type"},
    Reason{416, "Range Not Satisfiable"},
    Reason{426, "Upgrade Required"},
    Reason{429, "Too Many Requests"},
    Reason{431, "Request Header Fields Too Large"},
    Reason{500, "Internal Server Error"},
    Reason{501, "Not Implemented"},
    Reason{503, "Service Unavailable"},
    Reason{505, "HTTP Version Not Supported"},
    Reason{507, "Insufficient Storage"},
};

}  // namespace

std::string_view to_text(Method method) {
  constexpr std::array<std::string_view, 8> kNames = {"GET",   "HEAD",   "POST",    "PUT",
                                                      "PATCH", "DELETE", "OPTIONS", "OTHER"};
  return kNames.at(static_cast<std::size_t>(method));
}

const std::string* Request::find_header(std::string_view lower_name) const {
  return find_in(headers, lower_name);
}

const std::string* Request::find_query(std::string_view name) const { return find_in(query, name); }

std::vector<std::string> Request::all_query(std::string_view name) const {
  std::vector<std::string> values;
  for (const Field& field : query) {
    if (field.name == name) values.push_back(field.value);
  }
  return values;
}

Response empty_answer() { return Response{.status = 200, .headers = {}, .body = {}}; }

Response json_answer(int status, const boost::json::value& body) {
  return Response{.status = status,
                  .headers = {{"Content-Type", "application/json; charset=utf-8"}},
                  .body = to_valid_utf8(boost::json::serialize(body))};
}

Response text_answer(int status, std::string body, std::string_view type) {
  return Response{
      .status = status, .headers = {{"Content-Type", std::string(type)}}, .body = std::move(body)};
}

Response to_response(const ApiError& error) {
  boost::json::object body;
  body["code"] = error.code;
  body["message"] = error.message;
  for (const auto& [key, value] : error.more) body[key] = value;
  Response response = json_answer(error.status, body);
  response.headers.insert(response.headers.end(), error.headers.begin(), error.headers.end());
  return response;
}

ApiError body_refusal(const Error& error, std::string_view otherwise) {
  ApiError refused{.status = 400,
                   .code = std::string(otherwise),
                   .message = error.message,
                   .more = {},
                   .headers = {}};
  if (error.code == Code::Exhausted) {
    refused.status = 413;
    refused.code = "BODY_TOO_LARGE";
  } else if (error.os_errno == ETIMEDOUT) {
    refused.status = 408;
    refused.code = "TIMEOUT";
  }
  return refused;
}

std::string_view reason_of(int status) {
  const auto* const found = std::ranges::find(kReasons, status, &Reason::status);
  return found == kReasons.end() ? "Status" : found->text;
}

}  // namespace glovebox::serve
