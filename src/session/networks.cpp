#include "session/networks.h"

#include "egress/denial_gate.h"

namespace glovebox::session {

Networks::~Networks() {
  if (watch_.is_open()) watch_.release();  // the broker closes it
}

Result<void> Networks::open() {
  if (broker_) return {};
  TRY(egress::Broker broker, egress::Broker::open({}));
  broker_ = std::make_shared<egress::Broker>(std::move(broker));
  watch_.assign(broker_->fd().get());
  watch();
  return {};
}

void Networks::watch() {
  watch_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                    [this, there = std::weak_ptr(broker_)](boost::system::error_code problem) {
                      if (problem || there.expired()) return;
                      broker_->on_ready();
                      watch();
                    });
}

Result<std::unique_ptr<BoxNetwork>> Networks::add(const plan::NetworkPlan& plan,
                                                  OnDenied on_denied) {
  TRY_VOID(open());
  const auto gate = std::make_shared<egress::DenialGate>();
  const auto sink = [gate, on_denied = std::move(on_denied)](const egress::Event& event) {
    const auto* denied = std::get_if<egress::Denied>(&event);
    if (denied == nullptr) return;
    const std::uint64_t times = gate->take(*denied, egress::DenialGate::Clock::now());
    if (times > 0) on_denied(*denied, times);
  };
  TRY(const egress::BoxId box, broker_->add(plan, sink));
  return std::make_unique<BoxNetwork>(broker_, box);
}

}  // namespace glovebox::session
