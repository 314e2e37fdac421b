// The network of one `glovebox run`: its connect broker, in the supervisor's loop, and the ledger
// of what happened.
#pragma once

#include "base/result.h"
#include "egress/broker.h"
#include "egress/rules/ledger.h"
#include "launch/supervise.h"
#include "plan/network_plan.h"

#include <memory>
#include <optional>
#include <string>

namespace glovebox::app {

class RunNetwork final : public launch::NetworkDelegate {
 public:
  // Refused when a published port is taken.
  static Result<std::unique_ptr<RunNetwork>> open(const plan::NetworkPlan& plan);

  Result<void> take(launch::NetworkFiles files) override;
  BorrowedFd fd() const override { return broker_.fd(); }
  Result<void> on_ready() override;

  // The box has ended: what was open is counted.
  void close();

  const egress::Ledger& ledger() const { return ledger_; }
  // One line for each thing that was denied; empty when nothing was.
  std::string denials_text() const;

 private:
  explicit RunNetwork(egress::Broker broker) : broker_(std::move(broker)) {}

  egress::Ledger ledger_;
  std::optional<std::string> must_end_;  // why
  egress::Broker broker_;
  egress::BoxId box_ = 0;
};

}  // namespace glovebox::app
