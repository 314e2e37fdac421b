// The smallest HTTP server that the service's own library makes: what a request costs at least.
#pragma once

#include <memory>
#include <string>

namespace glovebox::bench {

// Answers every request on a unix socket with "hello", in a thread of its own, until destroyed.
class HelloServer {
 public:
  explicit HelloServer(const std::string& path);
  ~HelloServer();
  HelloServer(const HelloServer&) = delete;
  HelloServer& operator=(const HelloServer&) = delete;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace glovebox::bench
