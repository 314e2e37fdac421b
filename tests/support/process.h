// Real processes for tests: started with exact ids, descriptors and environment, watched through a
// pidfd, ended by force when they outstay their time. Nothing here waits by sleeping.
#pragma once

#include "base/unique_fd.h"
#include "support/outer_filter.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace glovebox::test {

using Clock = std::chrono::steady_clock;

struct Ids {
  uid_t uid = 0;
  gid_t gid = 0;
};

// What the child is before it executes `argv`. Fails loudly: a child that cannot become what was
// asked exits with kSetupFailed.
struct Launch {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // the whole of it, NAME=VALUE
  std::optional<Ids> ids;                // without: the test's own, capabilities and all
  std::string directory = "/";
  int in = -1;  // a negative one is closed in the child
  int out = -1;
  int err = -1;
  std::string terminal;   // path of a PTY to become the controlling terminal
  std::vector<int> kept;  // more descriptors that stay open across exec, a leak on purpose
  std::vector<int> refused_syscalls;         // a filter outside the box says ENOSYS to these
  std::vector<AnsweredCall> answered_calls;  // and 0 to these
};
inline constexpr int kSetupFailed = 99;

// A child process. The destructor kills it and waits, so no test leaves one behind.
class Process {
 public:
  explicit Process(const Launch& launch);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  BorrowedFd pidfd() const { return pidfd_; }
  void signal(int number) const;
  // Waits for the end, until `deadline`. The shell's number: exit code, or 128 + signal.
  std::optional<int> wait(Clock::time_point deadline);

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<int> status_;
};

// True when `fd` is readable (or at its end) before `deadline`.
bool readable_before(BorrowedFd fd, Clock::time_point deadline);
// Reads until `wanted` has been seen, the end, or `deadline`; what was read is appended to `text`.
bool read_until(BorrowedFd fd, std::string_view wanted, Clock::time_point deadline,
                std::string& text);

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};
Pipe make_pipe();

// Every process below `root`, children of children included, by /proc.
std::vector<pid_t> descendants_of(pid_t root);
// Waits until the process behind `pidfd` has ended; no pidfd means that it has. False at the
// deadline.
bool ends_before(BorrowedFd pidfd, Clock::time_point deadline);
UniqueFd open_pidfd(pid_t pid);

}  // namespace glovebox::test
