#include "python/host/crash.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace glovebox::pyhost {
namespace {

constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr timespec kPause{0, 2'000'000};
constexpr int kMostPauses = 250;  // half a second in all

std::atomic<std::uint32_t> crashed = 0;
std::atomic<bool> is_told = false;
thread_local std::uint32_t own_cell = 0;

// On the thread that met the fault. Async-signal-safe: atomics, nanosleep and raise.
void on_fault(int signal) {
  std::uint32_t none = 0;
  if (own_cell != 0 && crashed.compare_exchange_strong(none, own_cell)) {
    for (int i = 0; i < kMostPauses && !is_told; ++i) (void)::nanosleep(&kPause, nullptr);
  }
  // The handler is reset: this ends the process as the fault would have, as soon as it returns.
  (void)::raise(signal);
}

}  // namespace

int watch_crashes() {
  struct sigaction action{};
  action.sa_handler = on_fault;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND);
  for (const int fault : kFaults) {
    if (::sigaction(fault, &action, nullptr) != 0) return errno;
  }
  return 0;
}

CrashStack::CrashStack() {
  stack_t stack{};
  stack.ss_sp = bytes_.data();
  stack.ss_size = bytes_.size();
  // Without one a full stack is a crash that no message tells of, and no more than that.
  (void)::sigaltstack(&stack, nullptr);
  own_cell = 0;
}

CrashStack::~CrashStack() {
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  (void)::sigaltstack(&none, nullptr);  // cannot fail outside a handler
}

void CrashStack::set_cell(std::uint32_t number) { own_cell = number; }

std::uint32_t crashed_cell() { return crashed; }

void crash_is_told() { is_told = true; }

}  // namespace glovebox::pyhost
