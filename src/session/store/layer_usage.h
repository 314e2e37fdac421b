// What all layers take on the disk together, against the bound on it.
//
// Boxes write to their layers as they like, so the number comes from measuring, now and then. What
// goes through this process (restores, uploads) is counted before it is written, and is added to
// the last measure: several at once, or one after another, do not share the same room. Something
// that is written during a measurement counts twice until the next measure, never not at all.
//
// Safe to use from several threads at once.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <mutex>

namespace glovebox::session {

// What a layer held, and what is on its disk in all.
struct LayerLook {
  std::uint64_t bytes = 0;
  std::uint64_t on_disk = 0;
};

class LayerUsage {
 public:
  explicit LayerUsage(std::uint64_t most) : most_(most) {}  // 0: no bound

  std::uint64_t most() const { return most_; }
  std::uint64_t bytes() const;
  // Whether there is room for nothing more.
  bool is_full() const { return most_ > 0 && bytes() >= most_; }
  // Whether it was measured yet.
  bool is_measured() const;
  // Before so many bytes are written. Code::Exhausted when there is no room for them; then they are
  // not counted.
  Result<void> take(std::uint64_t bytes);

  // Who measures begins with the one and ends with the other.
  using Mark = std::uint64_t;
  Mark begin_measure() const;
  void end_measure(Mark mark, std::uint64_t bytes);

 private:
  std::uint64_t sum() const { return measured_ + (taken_ - seen_); }

  const std::uint64_t most_;
  mutable std::mutex mutex_;  // of what is below
  bool is_measured_ = false;
  std::uint64_t measured_ = 0;
  std::uint64_t taken_ = 0;  // ever
  std::uint64_t seen_ = 0;   // of it, what was on the disk before the last measure began
};

}  // namespace glovebox::session
