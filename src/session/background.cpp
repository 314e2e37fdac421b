#include "session/background.h"

#include "base/file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>

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
  const std::uint64_t oldest = size_ > kCapacity ? size_ - kCapacity : 0;
  const std::uint64_t from = std::clamp(cursor, oldest, size_);
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

}  // namespace glovebox::session
