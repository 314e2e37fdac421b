// Runs that have ended and are not in the store yet, so that a service that is killed forgets none.
//
// The store takes runs many at a time, some of them a second late. Each is written here first, by
// one write(2), before a client is told that it is over: what was written survives the death of the
// process, though not that of the machine. Two files take turns. While the store writes what the
// one holds, the other takes what comes; then the first is emptied.
//
// add() and turn() belong to one thread; drop() may be called on another.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "session/store/session_info.h"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace glovebox::session {

struct NotedRun {
  std::string session;
  RunRecord run;
  std::uint64_t runs = 0;  // of the session, this one included
  friend bool operator==(const NotedRun&, const NotedRun&) = default;
};

class RunJournal {
 public:
  // PATH.0 and PATH.1, made if they are not there.
  static Result<std::unique_ptr<RunJournal>> open(const std::string& path);

  // What a former service left, in no order. A line that is not whole is left out.
  Result<std::vector<NotedRun>> read() const;
  // Forgets all of it.
  Result<void> clear();

  Result<void> add(const NotedRun& noted);
  // From here on the other file takes what comes. False, and nothing is done, while that one still
  // has what the store has not said to be written.
  bool turn();
  // Everything from before the last turn is in the store.
  void drop();

 private:
  std::array<UniqueFd, 2> files_;
  std::size_t active_ = 0;
  std::atomic<bool> other_is_empty_ = true;
};

}  // namespace glovebox::session
