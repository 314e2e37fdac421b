// An unprivileged uid that no other live box on this machine has.
//
// As root every box runs under a uid of its own, so that no process outside shares it: nothing to
// signal, nothing to trace, no file to own. Uids come from a range (GLOVEBOX_UID_RANGE=first-count,
// by default 1900000000-65536). A lease is a lock on one byte of one file below /run: it ends with
// the process that holds it, whatever happens to that process, and leaves nothing behind.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstdint>
#include <string_view>

namespace glovebox::launch {

struct UidRange {
  std::uint32_t first = 1'900'000'000;
  std::uint32_t count = 65'536;
  friend bool operator==(const UidRange&, const UidRange&) = default;
};

// "first-count". Uid 0 and the ids that mean "nobody" or "none" can never be in a range.
Result<UidRange> parse_uid_range(std::string_view text);

class UidLease {
 public:
  UidLease() = default;
  std::uint32_t uid() const { return uid_; }

 private:
  friend class UidLeases;
  UidLease(UniqueFd lock, std::uint32_t uid) : lock_(std::move(lock)), uid_(uid) {}
  UniqueFd lock_;
  std::uint32_t uid_ = 0;
};

class UidLeases {
 public:
  // Opens the lease file of this machine. Needs root and a writable /run.
  static Result<UidLeases> open(UidRange range);
  // The first free uid at or after a place that differs between processes and calls.
  Result<UidLease> take();

 private:
  UidLeases(UniqueFd directory, UidRange range) : directory_(std::move(directory)), range_(range) {}
  UniqueFd directory_;
  UidRange range_;
  std::uint32_t next_ = 0;
};

}  // namespace glovebox::launch
