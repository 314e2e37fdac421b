// Answers the questions for names of one box, on sockets that lie in the box's own network.
//
// A name that no grant needs is answered at once with "no such name", and nothing leaves the host.
// A name that one does is looked up outside (dns_client.h), in a question of the broker's own, and
// the answer is kept (dns_cache.h): what was answered is what may be connected to by that name.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/dns/dns_cache.h"
#include "egress/dns/dns_client.h"
#include "egress/dns/dns_message.h"
#include "egress/kernel/poller.h"
#include "egress/rules/connections.h"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace glovebox::egress {

class NameServer {
 public:
  static constexpr std::size_t kMostUnderWay = 256;  // look-ups outside at a time
  static constexpr std::size_t kMostConnections = 32;
  // Look-ups outside in a second, and how many may come at once: a wildcard's names can carry data.
  static constexpr double kPerSecond = 50;
  static constexpr double kBurst = 200;

  NameServer(Poller& poller, Upstream& upstream, const authority::AuthoritySet& authority,
             EventSink sink);
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;
  ~NameServer();

  // Takes the two sockets.
  Result<void> start(UniqueFd questions, UniqueFd connections);

  const Pins& pins() const { return pins_; }
  // The authority has become narrower.
  void on_narrowed();

 private:
  using Reply = std::function<void(std::vector<std::byte>)>;
  struct Stream {
    UniqueFd socket;
    Poller::Token watch = Poller::kNone;
    Poller::Token timer = Poller::kNone;
    std::vector<std::byte> input;
  };
  using Key = std::pair<std::string, authority::Family>;

  void on_datagrams();
  void on_connections();
  void on_stream(std::uint64_t id);
  void close_stream(std::uint64_t id);
  void take_message(std::span<const std::byte> message, std::size_t limit, const Reply& reply);
  void answer_question(const Question& question, std::size_t limit, const Reply& reply);
  void look_up(const Key& key, std::function<void(const Answer&)> done);
  void on_result(const Key& key, const Lookup& lookup);
  bool may_ask_now();

  Poller& poller_;
  Upstream& upstream_;
  const authority::AuthoritySet& authority_;
  std::vector<std::uint16_t> ports_;  // telling_ports() of it
  EventSink sink_;
  UniqueFd questions_;
  UniqueFd connections_;
  Poller::Token questions_watch_ = Poller::kNone;
  Poller::Token connections_watch_ = Poller::kNone;
  std::uint64_t last_stream_ = 0;
  std::map<std::uint64_t, Stream> streams_;
  Pins pins_;
  std::map<Key, std::vector<std::function<void(const Answer&)>>> under_way_;
  double allowance_ = kBurst;
  Pins::Clock::time_point counted_;
  // Look-ups outlive this object: they ask whether it is still there.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace glovebox::egress
