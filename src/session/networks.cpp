#include "session/networks.h"

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
  const auto sink = [on_denied = std::move(on_denied)](const egress::Event& event) {
    if (const auto* denied = std::get_if<egress::Denied>(&event)) on_denied(*denied);
  };
  TRY(const egress::BoxId box, broker_->add(plan, sink));
  return std::make_unique<BoxNetwork>(broker_, box);
}

}  // namespace glovebox::session
