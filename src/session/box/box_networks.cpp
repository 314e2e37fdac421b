#include "session/box/box_networks.h"

#include "egress/rules/denial_limiter.h"

#include <boost/asio/post.hpp>

namespace glovebox::session {
namespace {

bool is_any(const plan::Publication& port) {
  const std::string address = port.address.to_text();
  return address == "0.0.0.0" || address == "::";
}

bool overlap(const plan::Publication& left, const plan::Publication& right) {
  return left.outside == right.outside &&
         (left.address == right.address || is_any(left) || is_any(right));
}

}  // namespace

Result<std::uint64_t> PublishedPorts::take(const std::string& session,
                                           const std::vector<plan::Publication>& ports) {
  for (const plan::Publication& port : ports) {
    for (const Taken& other : taken_) {
      if (other.session == session || !overlap(port, other.port)) continue;
      return fail(Code::Exhausted, "publish {}: another session has this port",
                  plan::to_text(port));
    }
  }
  ++last_;
  for (const plan::Publication& port : ports) taken_.push_back({last_, session, port});
  return last_;
}

void PublishedPorts::give_back(std::uint64_t taken) {
  std::erase_if(taken_, [&](const Taken& each) { return each.by == taken; });
}

BoxNetworks::~BoxNetworks() {
  for (const auto& [servers, watched] : brokers_) watched->watch.release();  // the broker closes it
}

Result<std::shared_ptr<egress::Broker>> BoxNetworks::broker_for(const std::string& name_servers) {
  const auto found = brokers_.find(name_servers);
  if (found != brokers_.end()) return found->second->broker;
  remove_unused();
  TRY(egress::Broker broker, egress::Broker::open({name_servers}));
  const auto watched = std::make_shared<Watched>(loop_);
  watched->broker = std::make_shared<egress::Broker>(std::move(broker));
  watched->watch.assign(watched->broker->fd().get());
  watch(watched);
  brokers_.emplace(name_servers, watched);
  return watched->broker;
}

// The wait holds no reference: it must not keep a broker that is not needed any more.
void BoxNetworks::watch(const std::shared_ptr<Watched>& watched) {
  watched->watch.async_wait(boost::asio::posix::descriptor_base::wait_read,
                            [weak = std::weak_ptr(watched)](boost::system::error_code problem) {
                              const auto there = weak.lock();
                              if (problem || !there) return;
                              there->broker->on_ready();
                              watch(there);
                            });
}

void BoxNetworks::remove_unused() {
  std::erase_if(brokers_, [&](const auto& entry) {
    const bool is_unused = entry.first != name_servers_ && entry.second->broker.use_count() == 1;
    if (is_unused) entry.second->watch.release();
    return is_unused;
  });
}

Result<std::unique_ptr<BoxNetwork>> BoxNetworks::add(const std::string& session,
                                                     const plan::NetworkPlan& plan,
                                                     OnDenied on_denied, OnMustEnd on_must_end) {
  TRY(const auto broker, broker_for(plan.resolver.empty() ? name_servers_ : plan.resolver));
  const auto gate = std::make_shared<egress::DenialGate>();
  const auto sink = [loop = loop_.get_executor(), gate, on_denied = std::move(on_denied),
                     on_must_end = std::move(on_must_end)](const egress::Event& event) {
    if (const auto* end = std::get_if<egress::MustEnd>(&event)) {
      // Not from here: ending the box ends the one who tells.
      boost::asio::post(loop, [on_must_end, why = end->why] { on_must_end(why); });
    }
    const auto* denied = std::get_if<egress::Denied>(&event);
    if (denied == nullptr) return;
    const std::uint64_t times = gate->take(*denied, egress::DenialGate::Clock::now());
    if (times > 0) on_denied(*denied, times);
  };
  TRY(const std::uint64_t taken, ports_->take(session, plan.published));
  const auto box = broker->add(plan, sink);
  if (!box) {
    ports_->give_back(taken);
    return unexpected(box.error());
  }
  return std::make_unique<BoxNetwork>(broker, *box, ports_, taken);
}

}  // namespace glovebox::session
