#include "session/manager/python_pool.h"

#include "plan/flat_plan.h"

namespace glovebox::session {

std::optional<std::string> python_pool_key(const Prepared& prepared) {
  const auto& network = prepared.plan.network;
  if (!prepared.python || !prepared.layers.empty() || (network && network->reaches_out())) {
    return std::nullopt;
  }
  const std::vector<std::byte> flat = plan::encode(prepared.plan);
  std::string key(reinterpret_cast<const char*>(flat.data()), flat.size());
  // What the flat form leaves to the supervisor.
  key += prepared.plan.watch.output_bytes ? std::to_string(*prepared.plan.watch.output_bytes) : "";
  key += '\0' + prepared.home;
  if (network) {
    for (const std::string& place : network->socket_places) key += '\0' + place;
  }
  key += '\0';
  for (const std::string& word : python_command(*prepared.python)) key += '\0' + word;
  return key;
}

}  // namespace glovebox::session
