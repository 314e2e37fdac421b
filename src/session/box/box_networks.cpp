#include "session/box/box_networks.h"

#include "egress/rules/denial_limiter.h"

#include <boost/asio/post.hpp>

namespace glovebox::session {

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

Result<std::unique_ptr<BoxNetwork>> BoxNetworks::add(const plan::NetworkPlan& plan,
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
  TRY(const egress::BoxId box, broker->add(plan, sink));
  return std::make_unique<BoxNetwork>(broker, box);
}

}  // namespace glovebox::session
