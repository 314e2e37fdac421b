// Times of the launcher's own part of a start, for the report.
#pragma once

#include <ctime>
#include <string>
#include <vector>

namespace glovebox::launch {

struct StepTime;

// Adds a line to a list each time lap() is called: what passed since the last call.
template <class List>
class Stopwatch {
 public:
  explicit Stopwatch(List& list) : list_(list), last_(now_ns()) {}

  void lap(const char* step) {
    const std::uint64_t now = now_ns();
    list_.push_back({step, now - last_});
    last_ = now;
  }

  static std::uint64_t now_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
  }

 private:
  List& list_;
  std::uint64_t last_;
};

}  // namespace glovebox::launch
