#include "egress/kernel/poller.h"

#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/timerfd.h>

namespace glovebox::egress {
namespace {

constexpr int kBatch = 64;

}  // namespace

Result<std::unique_ptr<Poller>> Poller::open() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_os(errno, "make an epoll");
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return fail_os(errno, "make a timer");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kNone;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, timer.get(), &event) != 0) {
    return fail_os(errno, "watch a timer");
  }
  return std::unique_ptr<Poller>(new Poller(std::move(epoll), std::move(timer)));
}

Result<Poller::Token> Poller::watch(BorrowedFd fd, std::uint32_t events, Handler handler) {
  const Token token = ++last_;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
    return fail_os(errno, "watch a descriptor");
  }
  watches_.emplace(token, Watch{fd.get(), std::make_shared<Handler>(std::move(handler))});
  return token;
}

Result<void> Poller::change(Token token, std::uint32_t events) {
  const auto found = watches_.find(token);
  if (found == watches_.end()) return fail(Code::NotFound, "that descriptor is not watched");
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event) != 0) {
    return fail_os(errno, "watch a descriptor");
  }
  return {};
}

void Poller::unwatch(Token token) {
  const auto found = watches_.find(token);
  if (found == watches_.end()) return;
  // A descriptor that is closed already has left by itself.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  watches_.erase(found);
}

Poller::Token Poller::call_at(Clock::time_point when, std::function<void()> action) {
  const Token token = ++last_;
  timers_.emplace(std::pair(when, token), std::move(action));
  due_.emplace(token, when);
  set_timer();
  return token;
}

void Poller::cancel(Token timer) {
  const auto found = due_.find(timer);
  if (found == due_.end()) return;
  timers_.erase({found->second, timer});
  due_.erase(found);
}

void Poller::set_timer() {
  const auto next = timers_.empty() ? Clock::time_point::max() : timers_.begin()->first.first;
  if (next >= set_for_) return;  // it wakes early enough, and sets itself anew then
  set_for_ = next;
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(next.time_since_epoch());
  itimerspec spec{};
  spec.it_value.tv_sec = ns.count() / 1'000'000'000;
  spec.it_value.tv_nsec = ns.count() % 1'000'000'000;
  // Cannot fail: the descriptor is a timer, and the time a valid one.
  (void)::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void Poller::run_timers() {
  std::uint64_t count = 0;
  (void)!::read(timer_.get(), &count, sizeof(count));  // only the wake-up matters
  set_for_ = Clock::time_point::max();
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto action = std::move(timers_.begin()->second);
    due_.erase(timers_.begin()->first.second);
    timers_.erase(timers_.begin());
    action();
  }
  set_timer();
}

void Poller::run_ready() {
  std::array<epoll_event, kBatch> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kBatch, 0);
  // The kernel lists what it reported last time first, if it is ready again: before what has become
  // ready meanwhile. From the end on, who asks without pause comes after who asks now and then.
  for (int i = count - 1; i >= 0; --i) {
    const epoll_event& event = events.at(static_cast<std::size_t>(i));
    const std::uint64_t token = event.data.u64;
    if (token == kNone) {
      run_timers();
      continue;
    }
    const auto found = watches_.find(token);
    if (found == watches_.end()) continue;  // an earlier handler took it away
    const std::shared_ptr<Handler> handler = found->second.handler;
    (*handler)(event.events);
  }
}

}  // namespace glovebox::egress
