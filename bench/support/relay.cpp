#include "support/relay.h"

#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

bool hand_on(int from, int to) {
  char byte = 0;
  return ::read(from, &byte, 1) == 1 && ::write(to, &byte, 1) == 1;
}

// Starts a process that answers what it reads from `above`, through `more` others. The end of
// `above` ends them all.
Result<pid_t> answer(UniqueFd above, int more);

[[noreturn]] void serve(int above, int more) {
  if (more == 0) {
    while (hand_on(above, above)) {
    }
    ::_exit(0);
  }
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) ::_exit(1);
  UniqueFd below(pair[0]);
  const auto pid = answer(UniqueFd(pair[1]), more - 1);
  while (pid && hand_on(above, below.get()) && hand_on(below.get(), above)) {
  }
  below.reset();
  if (pid) (void)::waitpid(*pid, nullptr, 0);
  ::_exit(0);
}

Result<pid_t> answer(UniqueFd above, int more) {
  const pid_t pid = ::fork();
  if (pid < 0) return fail_os(errno, "fork");
  if (pid != 0) return pid;
  const int end = above.release();
  // What was above the caller must end when it does.
  if (end > 3) (void)::close_range(3, static_cast<unsigned>(end) - 1, 0);
  (void)::close_range(static_cast<unsigned>(end) + 1, ~0U, 0);
  serve(end, more);
}

}  // namespace

Result<Relay> Relay::start(int processes) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return fail_os(errno, "socketpair");
  }
  Relay relay;
  relay.first_ = UniqueFd(pair[0]);
  TRY(relay.pid_, answer(UniqueFd(pair[1]), processes - 1));
  return relay;
}

Relay::Relay(Relay&& other) noexcept
    : first_(std::move(other.first_)), pid_(std::exchange(other.pid_, -1)) {}

Relay::~Relay() {
  first_.reset();
  if (pid_ > 0) (void)::waitpid(pid_, nullptr, 0);
}

Result<void> Relay::there_and_back() {
  char byte = 'x';
  if (::write(first_.get(), &byte, 1) != 1 || ::read(first_.get(), &byte, 1) != 1) {
    return fail_os(errno, "hand a byte on");
  }
  return {};
}

}  // namespace glovebox::bench
