#include "guest/agent/flows.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include <unistd.h>

namespace glovebox::guest {
namespace {

// A reader that has nothing yet, as against one that is over.
bool is_later(ssize_t size) { return size < 0 && (errno == EAGAIN || errno == EINTR); }

// Writes what is taken. False when the reader is gone.
bool write_some(BorrowedFd to, std::string& held) {
  while (!held.empty()) {
    const ssize_t size = ::write(to.get(), held.data(), held.size());
    if (is_later(size)) return true;
    if (size < 0) return false;
    held.erase(0, static_cast<std::size_t>(size));
  }
  return true;
}

}  // namespace

void OutFlow::add_credit(std::uint64_t bytes) {
  credit_ += std::min(bytes, std::numeric_limits<std::uint64_t>::max() - credit_);
}

FlowState OutFlow::move(const std::function<bool()>& may_send, const Send& send) {
  std::array<char, kMaxChunk> buffer;
  while (credit_ > 0 && may_send()) {
    const std::size_t most = std::min<std::uint64_t>(credit_, buffer.size());
    const ssize_t size = ::read(from_.get(), buffer.data(), most);
    if (is_later(size)) return FlowState::Dry;
    // A terminal answers EIO when no process has its other side open any more.
    if (size <= 0) return FlowState::Ended;
    credit_ -= static_cast<std::uint64_t>(size);
    if (!send(std::string_view(buffer.data(), static_cast<std::size_t>(size)))) {
      return FlowState::Ended;
    }
  }
  return FlowState::Blocked;
}

bool InFlow::put(std::string_view bytes) {
  if (held_.size() + bytes.size() > kInitialCredit) return false;
  held_ += bytes;
  return true;
}

FlowState InFlow::move() {
  const std::size_t before = held_.size();
  const bool open = write_some(to_, held_);
  if (!open) held_.clear();  // it will not be read; the sender is told that it has passed
  passed_ += before - held_.size();
  if (!open || (held_.empty() && ending_)) return FlowState::Ended;
  return held_.empty() ? FlowState::Dry : FlowState::Blocked;
}

FlowState Relay::move() {
  std::array<char, std::size_t{16} << 10> buffer;
  while (true) {
    if (!write_some(to_, held_)) return FlowState::Ended;
    if (!held_.empty()) return FlowState::Blocked;
    const ssize_t size = ::read(from_.get(), buffer.data(), buffer.size());
    if (is_later(size)) return FlowState::Dry;
    if (size <= 0) return FlowState::Ended;
    held_.assign(buffer.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace glovebox::guest
