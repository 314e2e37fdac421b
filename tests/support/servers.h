// Servers on loopback addresses of this machine, for boxes that are granted a way to them. Each
// runs in threads of the test and ends with its object.
#pragma once

#include "base/unique_fd.h"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace glovebox::test {

// Accepts connections, and does with each what the test says, in a thread of its own.
class TcpServer {
 public:
  using Talk = std::function<void(int connection)>;
  TcpServer(const std::string& address, Talk talk, int port = 0);
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  int number() const { return port_; }
  std::string port() const { return std::to_string(port_); }
  std::string where() const { return address_ + ":" + port(); }
  int visitors() const { return visitors_; }

 private:
  void serve();

  std::string address_;
  Talk talk_;
  UniqueFd listener_;
  UniqueFd stop_read_, stop_write_;
  int port_ = 0;
  std::atomic<int> visitors_{0};
  std::vector<std::thread> talks_;
  std::thread thread_;
};

// Answers every request with "hello" and the path.
TcpServer::Talk http_hello();
// Sends back what comes.
TcpServer::Talk echo();
// Closes at once: for counting who comes.
TcpServer::Talk canary();

// A listener whose queue is full: a connect to it gets no answer.
class Blackhole {
 public:
  explicit Blackhole(const std::string& address);
  std::string where() const { return where_; }
  std::string port() const { return port_; }

 private:
  UniqueFd listener_;
  std::vector<UniqueFd> fillers_;
  std::string where_;
  std::string port_;
};

// Answers questions for the names in its zone, and remembers what it was asked.
class DnsServer {
 public:
  explicit DnsServer(const std::string& address);
  ~DnsServer();
  DnsServer(const DnsServer&) = delete;
  DnsServer& operator=(const DnsServer&) = delete;

  void set(const std::string& name, std::vector<std::string> addresses);
  // The canonical name of one; its addresses are asked for under the other.
  void alias(const std::string& name, const std::string& target);
  std::string where() const { return where_; }
  std::vector<std::string> asked() const;

 private:
  void serve();
  std::vector<unsigned char> answer(const std::vector<unsigned char>& question);

  UniqueFd socket_;
  std::string where_;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> zone_;
  std::map<std::string, std::string> aliases_;
  std::vector<std::string> asked_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace glovebox::test
