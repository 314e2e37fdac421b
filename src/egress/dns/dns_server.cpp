#include "egress/dns/dns_server.h"

#include "egress/rules/egress_rules.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace glovebox::egress {
namespace {

using authority::Family;
using authority::IpNetwork;
using Clock = Pins::Clock;

constexpr std::size_t kMaxMessage = 4096;
constexpr std::size_t kMaxStreamAnswer = 65'535;
constexpr int kDatagramsAtOnce = 32;
constexpr std::chrono::seconds kStreamPatience{10};

Answer answer_of(const Lookup& lookup) {
  Answer answer;
  answer.addresses = lookup.addresses;
  answer.ttl_seconds = lookup.ttl_seconds;
  switch (lookup.status) {
    case Lookup::Status::Found:
    case Lookup::Status::NoAddress: break;
    case Lookup::Status::NoSuchName: answer.status = DnsStatus::NoSuchName; break;
    case Lookup::Status::Failed: answer.status = DnsStatus::Failed; break;
  }
  return answer;
}

Answer localhost(Family family) {
  Answer answer;
  auto address = IpNetwork::parse(family == Family::V4 ? "127.0.0.1" : "::1");
  GLOVEBOX_CHECK(address.has_value());
  answer.addresses.push_back(*std::move(address));
  return answer;
}

// For people: whatever bytes were asked for.
std::string shown(const std::string& name) {
  constexpr std::size_t kShown = 80;
  std::string text;
  for (const char c : name.substr(0, kShown)) text += c > ' ' && c < 0x7f ? c : '?';
  return name.size() > kShown ? text + "..." : text;
}

}  // namespace

NameServer::NameServer(Poller& poller, Upstream& upstream, const authority::AuthoritySet& authority,
                       EventSink sink)
    : poller_(poller),
      upstream_(upstream),
      authority_(authority),
      ports_(telling_ports(authority)),
      sink_(std::move(sink)),
      counted_(Clock::now()) {}

void NameServer::on_narrowed() { ports_ = telling_ports(authority_); }

NameServer::~NameServer() {
  *alive_ = false;
  poller_.unwatch(questions_watch_);
  poller_.unwatch(connections_watch_);
  while (!streams_.empty()) close_stream(streams_.begin()->first);
}

Result<void> NameServer::start(UniqueFd questions, UniqueFd connections) {
  questions_ = std::move(questions);
  connections_ = std::move(connections);
  TRY(questions_watch_,
      poller_.watch(questions_, EPOLLIN, [this](std::uint32_t) { on_datagrams(); }));
  TRY(connections_watch_,
      poller_.watch(connections_, EPOLLIN, [this](std::uint32_t) { on_connections(); }));
  return {};
}

void NameServer::on_datagrams() {
  std::array<std::byte, kMaxMessage> buffer;
  for (int i = 0; i < kDatagramsAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof(from);
    const ssize_t size = ::recvfrom(questions_.get(), buffer.data(), buffer.size(), MSG_TRUNC,
                                    reinterpret_cast<sockaddr*>(&from), &length);
    if (size < 0) return;
    if (static_cast<std::size_t>(size) > buffer.size()) continue;
    const auto reply = [this, from, length](const std::vector<std::byte>& message) {
      // An answer that cannot be delivered is asked for again.
      (void)::sendto(questions_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                     reinterpret_cast<const sockaddr*>(&from), length);
    };
    take_message({buffer.data(), static_cast<std::size_t>(size)}, kMaxDatagram, reply);
  }
}

void NameServer::on_connections() {
  UniqueFd socket(::accept4(connections_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket || streams_.size() >= kMostConnections) return;
  const std::uint64_t id = ++last_stream_;
  const auto watch = poller_.watch(socket, EPOLLIN, [this, id](std::uint32_t) { on_stream(id); });
  if (!watch) return;
  const auto timer =
      poller_.call_at(Clock::now() + kStreamPatience, [this, id] { close_stream(id); });
  streams_.emplace(id, Stream{std::move(socket), *watch, timer, {}});
}

void NameServer::close_stream(std::uint64_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  poller_.unwatch(found->second.watch);
  poller_.cancel(found->second.timer);
  streams_.erase(found);
}

// Two bytes of length, then the message.
void NameServer::on_stream(std::uint64_t id) {
  Stream& stream = streams_.at(id);
  std::array<std::byte, kMaxMessage> buffer;
  const ssize_t size = ::recv(stream.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0 && errno == EAGAIN) return;
  if (size <= 0) return close_stream(id);
  stream.input.insert(stream.input.end(), buffer.begin(), buffer.begin() + size);
  if (stream.input.size() < 2) return;
  const std::size_t wanted = std::to_integer<std::size_t>(stream.input[0]) << 8U |
                             std::to_integer<std::size_t>(stream.input[1]);
  if (wanted > kMaxMessage) return close_stream(id);
  if (stream.input.size() - 2 < wanted) return;
  const std::vector<std::byte> message(
      stream.input.begin() + 2, stream.input.begin() + 2 + static_cast<std::ptrdiff_t>(wanted));
  stream.input.erase(stream.input.begin(),
                     stream.input.begin() + 2 + static_cast<std::ptrdiff_t>(wanted));
  const auto reply = [this, id](std::vector<std::byte> answer) {
    const auto found = streams_.find(id);
    if (found == streams_.end()) return;
    const std::array<std::byte, 2> length{static_cast<std::byte>(answer.size() >> 8U),
                                          static_cast<std::byte>(answer.size() & 0xffU)};
    answer.insert(answer.begin(), length.begin(), length.end());
    const ssize_t sent = ::send(found->second.socket.get(), answer.data(), answer.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    // Who does not read its answers gets none.
    if (sent != static_cast<ssize_t>(answer.size())) close_stream(id);
  };
  take_message(message, kMaxStreamAnswer, reply);
}

void NameServer::take_message(std::span<const std::byte> message, std::size_t limit,
                              const Reply& reply) {
  const ReadQuestion read = read_question(message);
  if (read.question) return answer_question(*read.question, limit, reply);
  if (read.id) reply(encode_refusal(*read.id, read.status));
}

void NameServer::answer_question(const Question& question, std::size_t limit, const Reply& reply) {
  const auto send = [question, limit, reply](const Answer& answer) {
    reply(encode_answer(question, answer, limit));
  };
  const Family family = question.type == kTypeAaaa ? Family::V6 : Family::V4;
  const bool addresses = question.type == kTypeA || question.type == kTypeAaaa;
  if (question.name == "localhost") return send(addresses ? localhost(family) : Answer{});
  if (!may_look_up(authority_, ports_, question.name)) {
    const std::string name = shown(question.name);
    const bool plain = authority::DomainPattern::parse(question.name).has_value();
    sink_(Denied{Denied::Act::Resolve, name, plain ? fmt::format("resolve={}", name) : "",
                 plain ? "no rule needs it" : "that is no host name"});
    return send(Answer{DnsStatus::NoSuchName, {}, 0});
  }
  if (!addresses) return send(Answer{});
  look_up({question.name, family}, send);
}

bool NameServer::may_ask_now() {
  const auto now = Clock::now();
  const std::chrono::duration<double> passed = now - counted_;
  counted_ = now;
  allowance_ = std::min(kBurst, allowance_ + passed.count() * kPerSecond);
  if (allowance_ < 1 || under_way_.size() >= kMostUnderWay) return false;
  allowance_ -= 1;
  return true;
}

void NameServer::look_up(const Key& key, std::function<void(const Answer&)> done) {
  const auto now = Clock::now();
  if (const Pins::Pin* pin = pins_.find(key.first, key.second, now)) {
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(pin->until - now);
    return done(Answer{DnsStatus::Ok, pin->addresses, static_cast<std::uint32_t>(left.count())});
  }
  const auto waiting = under_way_.find(key);
  if (waiting != under_way_.end()) {
    if (waiting->second.size() < kMostUnderWay) waiting->second.push_back(std::move(done));
    return;
  }
  if (!may_ask_now()) return done(Answer{DnsStatus::Failed, {}, 0});
  under_way_[key].push_back(std::move(done));
  upstream_.look_up(key.first, key.second, [this, key, alive = alive_](const Lookup& lookup) {
    if (*alive) on_result(key, lookup);
  });
}

void NameServer::on_result(const Key& key, const Lookup& lookup) {
  const auto node = under_way_.extract(key);
  if (lookup.status == Lookup::Status::Found) {
    pins_.add(key.first, key.second, lookup.addresses, lookup.ttl_seconds, Clock::now());
  }
  const Answer answer = answer_of(lookup);
  if (node.empty()) return;
  for (const auto& done : node.mapped()) done(answer);
}

}  // namespace glovebox::egress
