// A client of HTTP that waits for its answer: one connection, and the least it can do.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace glovebox::bench {

class Client {
 public:
  // Of a unix socket.
  explicit Client(const std::string& path);
  bool is_connected() const { return connected_; }

  // The answer's body, however it is framed.
  Result<std::string> ask(std::string_view method, std::string_view path, std::string_view body);
  // Reads an answer and forgets it; returns how many bytes its body had.
  Result<std::uint64_t> ask_and_forget(std::string_view request);
  // Sends a request, and hands over what comes of its answer as it comes, until `take` has enough.
  Result<void> stream(std::string_view request, const std::function<bool(std::string_view)>& take);
  BorrowedFd fd() const { return fd_; }
  int status() const { return status_; }  // of the last answer

 private:
  enum class Keep : std::uint8_t { Yes, No };

  Result<void> fill();
  Result<std::string> line();
  Result<void> take(std::uint64_t count, std::string* into);
  Result<std::string> read_answer(Keep keep);

  UniqueFd fd_;
  bool connected_ = false;
  std::string buffer_;
  std::size_t at_ = 0;
  std::uint64_t seen_ = 0;
  int status_ = 0;
};

}  // namespace glovebox::bench
