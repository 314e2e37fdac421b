// The network of all boxes that have one: a connect broker for each choice of name servers, in the
// service's loop.
#pragma once

#include "base/result.h"
#include "egress/broker.h"
#include "launch/network_files.h"
#include "plan/network_plan.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace glovebox::session {

class BoxNetworks;

// Ports of the host that the boxes of a service publish. The kernel lets several sockets be bound
// to one port until the first of them listens, so it does not keep sessions apart.
class PublishedPorts {
 public:
  // Code::Exhausted when another session has one of them. A session's next box takes over the ports
  // of the one before.
  Result<std::uint64_t> take(const std::string& session,
                             const std::vector<plan::Publication>& ports);
  void give_back(std::uint64_t taken);

 private:
  struct Taken {
    std::uint64_t by = 0;
    std::string session;
    plan::Publication port;
  };
  std::uint64_t last_ = 0;
  std::vector<Taken> taken_;
};

// The network of one box. It ends with this.
class BoxNetwork {
 public:
  BoxNetwork(std::shared_ptr<egress::Broker> broker, egress::BoxId box,
             std::shared_ptr<PublishedPorts> ports, std::uint64_t taken)
      : broker_(std::move(broker)), box_(box), ports_(std::move(ports)), taken_(taken) {}
  BoxNetwork(const BoxNetwork&) = delete;
  BoxNetwork& operator=(const BoxNetwork&) = delete;
  ~BoxNetwork() {
    broker_->remove(box_);
    ports_->give_back(taken_);
  }

  // Once, with what the box handed out, before its agent is greeted.
  Result<void> take(launch::NetworkFiles files) { return broker_->start(box_, std::move(files)); }
  Result<egress::Narrowed> narrow(const authority::AuthoritySet& to, egress::Existing existing) {
    return broker_->narrow(box_, to, existing);
  }

 private:
  std::shared_ptr<egress::Broker> broker_;
  egress::BoxId box_;
  std::shared_ptr<PublishedPorts> ports_;
  std::uint64_t taken_;
};

class BoxNetworks {
 public:
  // `name_servers`: egress::BrokerSettings, for boxes whose plan names none.
  BoxNetworks(boost::asio::io_context& loop, std::string name_servers)
      : loop_(loop), name_servers_(std::move(name_servers)) {}
  BoxNetworks(const BoxNetworks&) = delete;
  BoxNetworks& operator=(const BoxNetworks&) = delete;
  ~BoxNetworks();

  // Makes the broker, which otherwise the first box does; to hear early that it cannot be made.
  Result<void> open() {
    TRY_VOID(broker_for(name_servers_));
    return {};
  }

  // A denial that is told, and how many like it it stands for (egress::DenialGate).
  using OnDenied = std::function<void(const egress::Denied&, std::uint64_t times)>;
  // The box must be ended, and why. Called from the loop.
  using OnMustEnd = std::function<void(const std::string& why)>;
  // Refused when a published port is taken, by another session or by a program of the host.
  Result<std::unique_ptr<BoxNetwork>> add(const std::string& session, const plan::NetworkPlan& plan,
                                          OnDenied on_denied, OnMustEnd on_must_end);

 private:
  // A broker, and the loop's watch on its descriptor.
  struct Watched {
    explicit Watched(boost::asio::io_context& loop) : watch(loop) {}
    std::shared_ptr<egress::Broker> broker;
    boost::asio::posix::stream_descriptor watch;
  };
  Result<std::shared_ptr<egress::Broker>> broker_for(const std::string& name_servers);
  static void watch(const std::shared_ptr<Watched>& watched);
  // Brokers of boxes that chose their name servers and are gone.
  void remove_unused();

  boost::asio::io_context& loop_;
  std::string name_servers_;
  std::map<std::string, std::shared_ptr<Watched>> brokers_;  // by name servers
  std::shared_ptr<PublishedPorts> ports_ = std::make_shared<PublishedPorts>();
};

}  // namespace glovebox::session
