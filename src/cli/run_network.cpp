#include "cli/run_network.h"

#include <algorithm>

namespace glovebox::app {
namespace {

constexpr std::size_t kLinesShown = 10;

}  // namespace

Result<std::unique_ptr<RunNetwork>> RunNetwork::open(const plan::NetworkPlan& plan) {
  TRY(egress::Broker broker, egress::Broker::open({plan.resolver}));
  std::unique_ptr<RunNetwork> network(new RunNetwork(std::move(broker)));
  TRY(network->box_, network->broker_.add(plan, [raw = network.get()](const egress::Event& event) {
    raw->ledger_.add(event);
    if (const auto* end = std::get_if<egress::MustEnd>(&event)) raw->must_end_ = end->why;
  }));
  return network;
}

Result<void> RunNetwork::take(launch::NetworkFiles files) {
  return broker_.start(box_, std::move(files));
}

Result<void> RunNetwork::on_ready() {
  broker_.on_ready();
  if (must_end_) return fail(Code::Denied, "the box was ended: {}", *must_end_);
  return {};
}

void RunNetwork::close() {
  broker_.on_ready();  // ends that the kernel has told already
  broker_.remove(box_);
}

std::string RunNetwork::denials_text() const {
  std::string text;
  const auto& denials = ledger_.denials();
  for (std::size_t i = 0; i < std::min(denials.size(), kLinesShown); ++i) {
    text += fmt::format("glovebox: {}\n", egress::to_text(denials[i].denied));
  }
  if (denials.size() > kLinesShown) {
    text += fmt::format("glovebox: {} more were denied (--report lists them)\n",
                        denials.size() - kLinesShown);
  }
  return text;
}

}  // namespace glovebox::app
