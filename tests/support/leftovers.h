// What a box could leave behind on the host: processes, mounts, cgroups, files. A test takes a
// snapshot before and asks afterwards for what is there in addition and does not go away.
#pragma once

#include "support/process.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace glovebox::test {

struct Snapshot {
  std::set<std::string> mounts;   // lines of /proc/self/mountinfo
  std::set<std::string> cgroups;  // directories named for the product, below a common one
  std::set<std::string> files;    // in /tmp, /dev/shm, /run and /run/glovebox, by owner or name
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Directories of its own as /tmp and /dev/shm, seen by this process and what it starts: other tests
// make files there at the same time, named like the product's. As an ordinary user it does nothing.
// A place that the programs under test are in stays as it is.
class OwnPlaces {
 public:
  OwnPlaces();
  ~OwnPlaces();
  OwnPlaces(const OwnPlaces&) = delete;
  OwnPlaces& operator=(const OwnPlaces&) = delete;

 private:
  // The place, and what is mounted there.
  std::vector<std::pair<std::string, std::string>> covered_;
};

// Makes orphans of the boxes children of the test program, so that none escapes its notice.
void adopt_orphans();

Snapshot take_snapshot();

// One line for each thing that was not there in `before` and is still there at `deadline`.
// Teardown need not be finished when a command returns, so things get until then to go; processes
// are waited for by pidfd. Another program's short-lived things do not count: only what was seen
// first and stays.
std::vector<std::string> left_since(const Snapshot& before, Clock::time_point deadline);

}  // namespace glovebox::test
