// What no box may see, whatever it is handed: the service's own state, sockets, tokens and
// settings, and the store of secrets.
//
// Places are remembered by what they are (a descriptor), and not by their names alone: a box that
// may write around one can move it, and it must not be found elsewhere by the next.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace glovebox::session {

class HiddenPlaces {
 public:
  // `names` are hidden even while nothing is there, so that nobody makes something there either;
  // each of `later` as soon as there is something: a store that is made by its first use.
  Result<void> open(std::vector<std::string> names, std::vector<std::string> later);

  // All their paths at the moment: by name, and where what had the name was moved to. From any
  // thread. An error when that cannot be known: then no box can be made.
  Result<std::vector<std::string>> paths();

  // What had the name of a place, and the names of all. A place that is replaced more often than
  // files of a service are is being replaced by somebody else.
  static constexpr std::size_t kMostHeld = 256;

 private:
  enum class Found : std::uint8_t { Nothing, Something };
  Result<Found> remember(const std::string& name);

  std::vector<std::string> names_;
  std::vector<std::string> later_;
  std::mutex mutex_;  // of what is below
  struct Held {
    std::string name;
    UniqueFd place;
  };
  std::vector<Held> held_;
};

}  // namespace glovebox::session
