#include "session/box/box_networks.h"

#include "egress/rules/denial_limiter.h"

#include <boost/asio/post.hpp>

namespace glovebox::session {

BoxNetworks::~BoxNetworks() {
  if (watch_.is_open()) watch_.release();  // the broker closes it
}

Result<void> BoxNetworks::open() {
  if (broker_) return {};
  TRY(egress::Broker broker, egress::Broker::open({name_servers_}));
  broker_ = std::make_shared<egress::Broker>(std::move(broker));
  watch_.assign(broker_->fd().get());
  watch();
  return {};
}

void BoxNetworks::watch() {
  watch_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    [this, there = std::weak_ptr(broker_)](boost::system::error_code problem) {
                      if (problem || there.expired()) return;
                      broker_->on_ready();
                      watch();
                    });
}

Result<std::unique_ptr<BoxNetwork>> BoxNetworks::add(const plan::NetworkPlan& plan,
                                                     OnDenied on_denied, OnMustEnd on_must_end) {
  TRY_VOID(open());
  const auto gate = std::make_shared<egress::DenialGate>();
  const auto sink = [loop = watch_.get_executor(), gate, on_denied = std::move(on_denied),
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
  TRY(const egress::BoxId box, broker_->add(plan, sink));
  return std::make_unique<BoxNetwork>(broker_, box);
}

}  // namespace glovebox::session
