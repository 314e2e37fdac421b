#include "launch/network_pool.h"

#include "base/file.h"
#include "launch/child/context.h"
#include "launch/namespaces.h"

#include <cerrno>

#include <fcntl.h>

namespace glovebox::launch {
namespace {

constexpr const char* kOwnNetwork = "/proc/self/ns/net";

}  // namespace

Result<void> NetworkPool::open() {
  TRY(own_, open_file(kOwnNetwork, O_RDONLY));
  // The launcher of an ordinary user has not the right to enter the host's network namespace, so it
  // must not leave it.
  if (!enter_namespace(own_, kNetworkNamespace)) own_.reset();
  return {};
}

Result<bool> NetworkPool::add_one() {
  if (!own_ || ready_.size() >= kTarget) return false;
  TRY_VOID(leave());
  is_away_ = true;
  TRY_VOID(make_namespace(kNetworkNamespace));
  auto made = open_file(kOwnNetwork, O_RDONLY);
  int resolver[kResolverFds] = {-1, -1};
  const bool raised = raise_loopback() && open_resolver_sockets(resolver);
  const int raise_errno = errno;
  Resolver owned{UniqueFd(resolver[0]), UniqueFd(resolver[1])};
  TRY_VOID(leave());
  if (!made) return tl::unexpected(std::move(made).error());
  if (!raised) return fail_os(raise_errno, "bring up loopback and a resolver's sockets");
  ready_.push_back({*std::move(made), std::move(owned)});
  return true;
}

Result<std::optional<NetworkPool::Resolver>> NetworkPool::enter() {
  if (ready_.empty()) return std::optional<Resolver>();
  Ready chosen = std::move(ready_.back());
  ready_.pop_back();
  is_away_ = true;
  TRY_VOID(enter_namespace(chosen.network, kNetworkNamespace));
  return std::optional<Resolver>(std::move(chosen.resolver));
}

Result<void> NetworkPool::leave() {
  if (!is_away_) return {};
  TRY_VOID(enter_namespace(own_, kNetworkNamespace));
  is_away_ = false;
  return {};
}

}  // namespace glovebox::launch
