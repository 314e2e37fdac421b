// Counts what is under way.
#pragma once

#include <cstddef>
#include <memory>

namespace glovebox::session {

// Adds one to a count for as long as it lives, however what it stands for ends.
class Count {
 public:
  explicit Count(std::shared_ptr<std::size_t> count) : count_(std::move(count)) { ++*count_; }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;
  ~Count() { --*count_; }

 private:
  std::shared_ptr<std::size_t> count_;
};

}  // namespace glovebox::session
