#include "egress/kernel/poller.h"

#include <array>
#include <cerrno>
#include <ranges>

#include <sys/timerfd.h>

namespace glovebox::egress {
namespace {

constexpr std::size_t kBatch = 64;

}  // namespace

Result<std::unique_ptr<Poller>> Poller::open() {
  TRY(Epoll epoll, Epoll::open());
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return fail_os(errno, "make a timer");
  TRY_VOID(epoll.add(timer, EPOLLIN, kNone));
  return std::unique_ptr<Poller>(new Poller(std::move(epoll), std::move(timer)));
}

Result<Poller::Token> Poller::watch(BorrowedFd fd, std::uint32_t events, Handler handler) {
  const Token token = ++last_;
  TRY_VOID(epoll_.add(fd, events, token));
  watches_.emplace(token, Watch{fd.get(), std::make_shared<Handler>(std::move(handler))});
  return token;
}

Result<void> Poller::change(Token token, std::uint32_t events) {
  const auto found = watches_.find(token);
  if (found == watches_.end()) return fail(Code::NotFound, "that descriptor is not watched");
  return epoll_.change(BorrowedFd(found->second.fd), events, token);
}

void Poller::unwatch(Token token) {
  const auto found = watches_.find(token);
  if (found == watches_.end()) return;
  epoll_.remove(BorrowedFd(found->second.fd));
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
  std::array<epoll_event, kBatch> room;
  const auto ready = epoll_.wait(room, 0);
  if (!ready) return;
  // The kernel lists what it reported last time first, if it is ready again: before what has become
  // ready meanwhile. From the end on, who asks without pause comes after who asks now and then.
  for (const epoll_event& event : std::views::reverse(*ready)) {
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
