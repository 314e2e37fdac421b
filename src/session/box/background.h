// Background runs: their status, and their output in a spool outside the box.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
// from the beginning. The file has no name, so no other process can open it and nothing is left
// behind when this process dies.
class Spool {
 public:
  static constexpr std::uint64_t kCapacity = std::uint64_t{16} << 20;

  // `directory` is where the file lives.
  static Result<Spool> open(const std::string& directory);

  Result<void> append(std::string_view bytes);
  // A cursor past the end is taken as the end.
  Result<BackgroundLog> read(std::uint64_t cursor, std::size_t most) const;
  std::uint64_t size() const { return size_; }
  // Bytes that are on the disk.
  std::uint64_t held() const { return size_ - oldest(); }
  // How many more there will be when so many are appended.
  std::uint64_t growth(std::uint64_t bytes) const { return std::min(bytes, kCapacity - held()); }
  // Gives up what is kept. What is appended later is kept again, at its position.
  void drop();
  // The run is over: its output is the first to make room.
  void finish(WallTime when) { finished_at_ = when; }
  const std::optional<WallTime>& finished_at() const { return finished_at_; }

 private:
  explicit Spool(UniqueFd file) : file_(std::move(file)) {}
  std::uint64_t oldest() const {
    return std::max(dropped_, size_ > kCapacity ? size_ - kCapacity : 0);
  }

  UniqueFd file_;
  std::uint64_t size_ = 0;
  std::uint64_t dropped_ = 0;  // everything before this position was given up
  std::optional<WallTime> finished_at_;
};

// The most that all background runs of one session keep together.
inline constexpr std::uint64_t kMostSpooled = std::uint64_t{64} << 20;

// What the background runs of one session keep, in whichever of its boxes they were. The runs own
// their spools.
class SpoolShelf {
 public:
  void add(const std::shared_ptr<Spool>& spool);
  // Takes over what is on another one.
  void add_all(const SpoolShelf& other);
  // Drops output until so many bytes more fit in kMostSpooled: first of the run that has been over
  // for the longest time. When all are under way, of the one that holds the most.
  void make_room(std::uint64_t bytes);

 private:
  std::vector<std::weak_ptr<Spool>> spools_;
};

}  // namespace glovebox::session
