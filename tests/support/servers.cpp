#include "support/servers.h"

#include <array>
#include <stdexcept>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

using Bytes = std::vector<unsigned char>;

sockaddr_in address_of(const std::string& address, int port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1) throw std::runtime_error(address);
  return where;
}

UniqueFd bound(const std::string& address, int type, int port, int* got) {
  UniqueFd fd(socket(AF_INET, type | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in where = address_of(address, port);
  socklen_t length = sizeof where;
  auto* generic = reinterpret_cast<sockaddr*>(&where);
  if (bind(fd.get(), generic, length) != 0 || getsockname(fd.get(), generic, &length) != 0) {
    throw std::runtime_error("cannot bind " + address);
  }
  *got = ntohs(where.sin_port);
  return fd;
}

void put(Bytes& out, unsigned number) {
  out.push_back(static_cast<unsigned char>(number >> 8));
  out.push_back(static_cast<unsigned char>(number & 0xff));
}

void put_name(Bytes& out, const std::string& name) {
  std::size_t at = 0;
  while (at < name.size()) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    out.push_back(static_cast<unsigned char>(dot - at));
    out.insert(out.end(), name.begin() + static_cast<std::ptrdiff_t>(at),
               name.begin() + static_cast<std::ptrdiff_t>(dot));
    at = dot + 1;
  }
  out.push_back(0);
}

}  // namespace

TcpServer::TcpServer(const std::string& address, Talk talk, int port)
    : address_(address), talk_(std::move(talk)) {
  listener_ = bound(address, SOCK_STREAM, port, &port_);
  if (listen(listener_.get(), 128) != 0) throw std::runtime_error("cannot listen");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  stop_read_ = UniqueFd(ends[0]);
  stop_write_ = UniqueFd(ends[1]);
  thread_ = std::thread([this] { serve(); });
}

TcpServer::~TcpServer() {
  stop_write_.reset();
  thread_.join();
  for (std::thread& talk : talks_) talk.join();
}

void TcpServer::serve() {
  while (true) {
    pollfd waits[2] = {{listener_.get(), POLLIN, 0}, {stop_read_.get(), POLLIN, 0}};
    if (poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) return;
    UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) continue;
    ++visitors_;
    const timeval patience{5, 0};
    setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    talks_.emplace_back([talk = talk_, fd = std::move(connection)] { talk(fd.get()); });
    if (talks_.size() > 256) {
      for (std::thread& old : talks_) old.join();
      talks_.clear();
    }
  }
}

TcpServer::Talk http_hello() {
  return [](int fd) {
    std::string request;
    std::array<char, 4096> buffer;
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t size = read(fd, buffer.data(), buffer.size());
      if (size <= 0) return;
      request.append(buffer.data(), static_cast<std::size_t>(size));
    }
    const std::size_t from = request.find(' ') + 1;
    const std::string body = "hello " + request.substr(from, request.find(' ', from) - from) + "\n";
    const std::string answer =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    (void)!write(fd, answer.data(), answer.size());
    shutdown(fd, SHUT_WR);
    while (read(fd, buffer.data(), buffer.size()) > 0) {
    }
  };
}

TcpServer::Talk echo() {
  return [](int fd) {
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t size = read(fd, buffer.data(), buffer.size());
      if (size <= 0 || write(fd, buffer.data(), static_cast<std::size_t>(size)) != size) return;
    }
  };
}

TcpServer::Talk canary() {
  return [](int) {};
}

Blackhole::Blackhole(const std::string& address) {
  int port = 0;
  listener_ = bound(address, SOCK_STREAM, 0, &port);
  if (listen(listener_.get(), 0) != 0) throw std::runtime_error("cannot listen");
  port_ = std::to_string(port);
  where_ = address + ":" + port_;
  const sockaddr_in where = address_of(address, port);
  for (int i = 0; i < 4; ++i) {
    UniqueFd filler(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    (void)connect(filler.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where);
    fillers_.push_back(std::move(filler));
  }
}

DnsServer::DnsServer(const std::string& address) {
  int port = 0;
  socket_ = bound(address, SOCK_DGRAM, 0, &port);
  where_ = address + ":" + std::to_string(port);
  thread_ = std::thread([this] { serve(); });
}

DnsServer::~DnsServer() {
  ended_ = true;
  shutdown(socket_.get(), SHUT_RDWR);
  thread_.join();
}

void DnsServer::set(const std::string& name, std::vector<std::string> addresses) {
  const std::lock_guard lock(mutex_);
  zone_[name] = std::move(addresses);
}

void DnsServer::alias(const std::string& name, const std::string& target) {
  const std::lock_guard lock(mutex_);
  aliases_[name] = target;
}

std::vector<std::string> DnsServer::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

void DnsServer::serve() {
  while (!ended_) {
    pollfd wait{socket_.get(), POLLIN, 0};
    if (poll(&wait, 1, 100) <= 0) continue;
    Bytes question(1500);
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    auto* generic = reinterpret_cast<sockaddr*>(&from);
    const ssize_t size =
        recvfrom(socket_.get(), question.data(), question.size(), MSG_DONTWAIT, generic, &length);
    if (size < 17) continue;
    question.resize(static_cast<std::size_t>(size));
    const Bytes reply = answer(question);
    sendto(socket_.get(), reply.data(), reply.size(), 0, generic, length);
  }
}

Bytes DnsServer::answer(const Bytes& question) {
  const std::lock_guard lock(mutex_);
  std::string name;
  std::size_t at = 12;
  while (at < question.size() && question[at] != 0) {
    if (!name.empty()) name += '.';
    name.append(question.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                question.begin() + static_cast<std::ptrdiff_t>(at) + 1 + question[at]);
    at += question[at] + 1U;
  }
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  asked_.push_back(name);
  const bool wants_v4 = question[at + 2] == 1;
  const auto canonical = aliases_.find(name);
  const std::string owner = canonical == aliases_.end() ? name : canonical->second;
  const auto known = zone_.find(owner);
  Bytes records;
  unsigned count = 0;
  if (canonical != aliases_.end()) {
    Bytes target;
    put_name(target, owner);
    put_name(records, name);
    for (const unsigned number : {5U, 1U, 0U, 30U}) put(records, number);
    put(records, static_cast<unsigned>(target.size()));
    records.insert(records.end(), target.begin(), target.end());
    ++count;
  }
  for (const std::string& text :
       known == zone_.end() ? std::vector<std::string>() : known->second) {
    unsigned char raw[16];
    const bool v4 = text.find(':') == std::string::npos;
    if (v4 != wants_v4 || inet_pton(v4 ? AF_INET : AF_INET6, text.c_str(), raw) != 1) continue;
    put_name(records, owner);
    for (const unsigned number : {v4 ? 1U : 28U, 1U, 0U, 5U, v4 ? 4U : 16U}) put(records, number);
    records.insert(records.end(), raw, raw + (v4 ? 4 : 16));
    ++count;
  }
  Bytes reply(question.begin(), question.begin() + 2);
  put(reply, known == zone_.end() ? 0x8183 : 0x8180);
  for (const unsigned number : {1U, count, 0U, 0U}) put(reply, number);
  reply.insert(reply.end(), question.begin() + 12,
               question.begin() + static_cast<std::ptrdiff_t>(at) + 5);
  reply.insert(reply.end(), records.begin(), records.end());
  return reply;
}

}  // namespace glovebox::test
