// Background runs: their status, and their output in a spool outside the box.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::session {

using WallTime = std::chrono::system_clock::time_point;

struct BackgroundStatus {
  std::string run_id;  // a UUID
  bool running = true;
  std::optional<int> exit_code;
  std::string error;  // "session terminated", when the session ended first
  WallTime started_at;
  std::optional<WallTime> finished_at;
  std::uint64_t output_bytes = 0;  // all that was printed, kept or not
  friend bool operator==(const BackgroundStatus&, const BackgroundStatus&) = default;
};

struct BackgroundLog {
  std::string bytes;
  std::uint64_t next = 0;     // the cursor to go on with
  std::uint64_t skipped = 0;  // bytes between the cursor asked for and the first one here
};

// What one background run has printed: the last kCapacity bytes of it, each at its own position
// from the beginning. The file has no name, so nobody else can open it and nothing is left behind
// when this process dies.
class Spool {
 public:
  static constexpr std::uint64_t kCapacity = std::uint64_t{16} << 20;

  // `directory` is where the file lives.
  static Result<Spool> open(const std::string& directory);

  Result<void> append(std::string_view bytes);
  // A cursor past the end is taken as the end.
  Result<BackgroundLog> read(std::uint64_t cursor, std::size_t most) const;
  std::uint64_t size() const { return size_; }

 private:
  explicit Spool(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
  std::uint64_t size_ = 0;
};

}  // namespace glovebox::session
