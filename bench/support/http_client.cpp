#include "support/http_client.h"

#include "base/file.h"

#include <algorithm>
#include <cstdlib>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

}  // namespace

Client::Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  connected_ =
      ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

Result<std::string> Client::ask(std::string_view method, std::string_view path,
                                std::string_view body) {
  TRY_VOID(write_all(fd_, fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n"
                                      "\r\n{}",
                                      method, path, body.size(), body)));
  return read_answer(Keep::Yes);
}

Result<std::uint64_t> Client::ask_and_forget(std::string_view request) {
  TRY_VOID(write_all(fd_, request));
  TRY_VOID(read_answer(Keep::No));
  return seen_;
}

Result<void> Client::stream(std::string_view request,
                            const std::function<bool(std::string_view)>& take) {
  TRY_VOID(write_all(fd_, request));
  std::string buffer(kPiece, '\0');
  for (;;) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got <= 0) return fail(Code::Os, "the service closed the connection");
    if (take(std::string_view(buffer.data(), static_cast<std::size_t>(got)))) return {};
  }
}

Result<void> Client::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kPiece);
  const ssize_t got = ::read(fd_.get(), buffer_.data() + before, kPiece);
  buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got <= 0) return fail(Code::Os, "the service closed the connection");
  return {};
}

Result<std::string> Client::line() {
  for (;;) {
    const std::size_t end = buffer_.find("\r\n", at_);
    if (end != std::string::npos) {
      std::string text = buffer_.substr(at_, end - at_);
      at_ = end + 2;
      return text;
    }
    TRY_VOID(fill());
  }
}

Result<void> Client::take(std::uint64_t count, std::string* into) {
  while (count > 0) {
    if (at_ == buffer_.size()) TRY_VOID(fill());
    const std::size_t here = std::min<std::uint64_t>(count, buffer_.size() - at_);
    if (into != nullptr) into->append(buffer_, at_, here);
    at_ += here;
    seen_ += here;
    count -= here;
  }
  return {};
}

Result<std::string> Client::read_answer(Keep keep) {
  std::string body;
  std::string* into = keep == Keep::Yes ? &body : nullptr;
  seen_ = 0;
  std::uint64_t length = 0;
  bool chunked = false;
  TRY(const std::string first, line());
  status_ = first.size() > 12 ? std::atoi(&first[9]) : 0;
  for (;;) {
    TRY(const std::string header, line());
    if (header.empty()) break;
    if (header.starts_with("Content-Length: ")) length = std::strtoull(&header[16], nullptr, 10);
    if (header.starts_with("Transfer-Encoding: chunked")) chunked = true;
  }
  if (!chunked) {
    TRY_VOID(take(length, into));
    return body;
  }
  for (;;) {
    TRY(const std::string size, line());
    const std::uint64_t count = std::strtoull(size.c_str(), nullptr, 16);
    TRY_VOID(take(count, into));
    TRY_VOID(line());
    if (count == 0) return body;
  }
}

}  // namespace glovebox::bench
