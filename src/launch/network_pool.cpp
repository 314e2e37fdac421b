#include "launch/network_pool.h"

#include "base/file.h"
#include "launch/child/context.h"

#include <cerrno>

#include <fcntl.h>
#include <sched.h>

namespace glovebox::launch {
namespace {

constexpr const char* kOwnNetwork = "/proc/self/ns/net";

}  // namespace

Result<void> NetworkPool::open() {
  TRY(own_, open_file(kOwnNetwork, O_RDONLY));
  return {};
}

Result<bool> NetworkPool::add_one() {
  if (!own_ || ready_.size() >= kTarget) return false;
  if (::unshare(CLONE_NEWNET) != 0) return fail_os(errno, "make a network namespace");
  auto made = open_file(kOwnNetwork, O_RDONLY);
  const bool raised = raise_loopback();
  const int raise_errno = errno;
  TRY_VOID(leave());
  if (!made) return tl::unexpected(std::move(made).error());
  if (!raised) return fail_os(raise_errno, "bring up loopback");
  ready_.push_back(*std::move(made));
  return true;
}

Result<bool> NetworkPool::enter() {
  if (ready_.empty()) return false;
  const UniqueFd chosen = std::move(ready_.back());
  ready_.pop_back();
  if (::setns(chosen.get(), CLONE_NEWNET) != 0) return fail_os(errno, "enter a network namespace");
  return true;
}

Result<void> NetworkPool::leave() {
  if (::setns(own_.get(), CLONE_NEWNET) != 0) return fail_os(errno, "leave a network namespace");
  return {};
}

}  // namespace glovebox::launch
