// The state of a manager that is to live no longer than the program around it.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <memory>
#include <string>

namespace glovebox::session {

// A directory that is there until this is destroyed. A program that is killed leaves it behind; it
// is locked as long as that program lives, so the next one can tell, and removes it.
class TemporaryState {
 public:
  // Makes a directory whose path begins with `stem`, such as "/tmp/glovebox-mcp-". What the dead
  // left behind under the same stem is removed, as far as it is the caller's own.
  static Result<std::unique_ptr<TemporaryState>> make(const std::string& stem);

  TemporaryState(const TemporaryState&) = delete;
  TemporaryState& operator=(const TemporaryState&) = delete;
  ~TemporaryState();

  // For ManagerSettings::state_directory.
  std::string directory() const { return place_ + "/state"; }

 private:
  TemporaryState(std::string place, UniqueFd lock)
      : place_(std::move(place)), lock_(std::move(lock)) {}

  std::string place_;
  UniqueFd lock_;  // the directory itself
};

}  // namespace glovebox::session
