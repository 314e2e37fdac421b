#include "egress/kernel/interrupter.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>

#include <unistd.h>

namespace glovebox::egress {
namespace {

void do_nothing(int) {}

// One number for all brokers of the process. A signal without a handler would end the process, and
// one that is ignored ends no call.
Result<int> claim_signal() {
  static std::mutex lock;
  const std::lock_guard guard(lock);
  for (int number = SIGRTMAX; number >= SIGRTMIN; --number) {
    struct sigaction action{};
    if (::sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler == do_nothing) return number;
    if (action.sa_handler != SIG_DFL) continue;
    action = {};
    action.sa_handler = do_nothing;  // without SA_RESTART, so that the call ends
    if (::sigaction(number, &action, nullptr) != 0) return fail_os(errno, "handle a signal");
    return number;
  }
  return fail(Code::Exhausted, "the process uses all real-time signals, and the broker needs one");
}

}  // namespace

Interrupter::~Interrupter() {
  if (timer_) ::timer_delete(*timer_);
}

Result<void> Interrupter::open() {
  TRY(signal_, claim_signal());
  return make_timer(::gettid());
}

// The old one first: the kernel counts what each user has.
Result<void> Interrupter::make_timer(pid_t thread) {
  if (timer_) ::timer_delete(*timer_);
  timer_.reset();
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal_;
  event._sigev_un._tid = thread;
  timer_t timer{};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return fail_os(errno, "make a timer");
  timer_ = timer;
  thread_ = thread;
  return {};
}

// Threads of programs that embed the broker have signals blocked as a rule.
void Interrupter::let_in() const {
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, signal_);
  if (::pthread_sigmask(SIG_UNBLOCK, &own, nullptr) != 0) std::abort();
}

void Interrupter::set(std::chrono::nanoseconds period) const {
  const timespec time{0, period.count()};
  const itimerspec spec{time, time};
  // Without it a box could hold the broker up for good.
  if (::timer_settime(*timer_, 0, &spec, nullptr) != 0) std::abort();
}

Interrupter::Turn::Turn(Interrupter& interrupter) : interrupter_(interrupter) {
  if (interrupter_.depth_++ > 0) return;
  if (const pid_t thread = ::gettid(); thread != interrupter_.thread_) {
    if (!interrupter_.make_timer(thread)) std::abort();  // as above
  }
  interrupter_.let_in();
  interrupter_.set(kPeriod);
}

Interrupter::Turn::~Turn() {
  if (--interrupter_.depth_ == 0) interrupter_.set(std::chrono::nanoseconds(0));
}

}  // namespace glovebox::egress
