#include "session/box/background.h"

#include "base/file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::session {

Result<Spool> Spool::open(const std::string& directory) {
  auto file = open_file(directory, O_RDWR | O_TMPFILE, 0600);
  if (!file) return fail_os(file.error().os_errno, "make a file for output in {}", directory);
  return Spool(*std::move(file));
}

// The byte at position p is at p % kCapacity.
Result<void> Spool::append(std::string_view bytes) {
  if (bytes.size() > kCapacity) {
    size_ += bytes.size() - kCapacity;
    bytes.remove_prefix(bytes.size() - kCapacity);
  }
  while (!bytes.empty()) {
    const std::uint64_t at = size_ % kCapacity;
    const std::size_t part = std::min<std::uint64_t>(bytes.size(), kCapacity - at);
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), part, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail_os(written < 0 ? errno : EIO, "keep a run's output");
    size_ += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<BackgroundLog> Spool::read(std::uint64_t cursor, std::size_t most) const {
  BackgroundLog log;
  const std::uint64_t from = std::clamp(cursor, oldest(), size_);
  log.skipped = from > cursor ? from - cursor : 0;
  log.bytes.resize(std::min<std::uint64_t>({most, size_ - from, kCapacity}));
  std::size_t done = 0;
  while (done < log.bytes.size()) {
    const std::uint64_t at = (from + done) % kCapacity;
    const std::size_t part = std::min<std::uint64_t>(log.bytes.size() - done, kCapacity - at);
    const ssize_t size =
        ::pread(file_.get(), log.bytes.data() + done, part, static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return fail_os(size < 0 ? errno : EIO, "read a run's output");
    done += static_cast<std::size_t>(size);
  }
  log.next = from + log.bytes.size();
  return log;
}

void Spool::drop() {
  if (::ftruncate(file_.get(), 0) == 0) dropped_ = size_;
}

void SpoolShelf::add(const std::shared_ptr<Spool>& spool) {
  std::erase_if(spools_, [](const auto& one) { return one.expired(); });
  spools_.push_back(spool);
}

void SpoolShelf::add_all(const SpoolShelf& other) {
  spools_.insert(spools_.end(), other.spools_.begin(), other.spools_.end());
}

void SpoolShelf::make_room(std::uint64_t bytes) {
  const auto order = [](const std::shared_ptr<Spool>& spool) {
    const WallTime over = spool->finished_at().value_or(WallTime::max());
    return std::pair(over, Spool::kCapacity - spool->held());
  };
  std::uint64_t held = 0;
  std::vector<std::shared_ptr<Spool>> holders;
  for (const auto& one : spools_) {
    const std::shared_ptr<Spool> spool = one.lock();
    if (!spool || spool->held() == 0) continue;
    held += spool->held();
    holders.push_back(spool);
  }
  if (held + bytes <= kMostSpooled) return;
  std::ranges::sort(holders, {}, order);
  for (const std::shared_ptr<Spool>& spool : holders) {
    if (held + bytes <= kMostSpooled) return;
    held -= spool->held();
    spool->drop();
    held += spool->held();
  }
}

}  // namespace glovebox::session
