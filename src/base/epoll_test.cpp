#include "base/epoll.h"

#include "base/pipe.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <csignal>

#include <sys/time.h>
#include <unistd.h>

namespace glovebox {
namespace {

std::size_t ready(const Epoll& epoll, int timeout_ms) {
  std::array<epoll_event, 4> room;
  const auto events = epoll.wait(room, timeout_ms);
  EXPECT_TRUE(events);
  return events ? events->size() : 0;
}

TEST(Epoll, TellsWhatIsReadyByItsToken) {
  const auto epoll = Epoll::open();
  const auto pipe = open_pipe();
  ASSERT_TRUE(epoll && pipe);
  EXPECT_TRUE(epoll->add(pipe->read, EPOLLIN, 7));
  EXPECT_EQ(ready(*epoll, 0), 0U);
  EXPECT_EQ(::write(pipe->write.get(), "x", 1), 1);
  std::array<epoll_event, 4> room;
  const auto events = epoll->wait(room, -1);
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 1U);
  const std::uint64_t token = events->front().data.u64;
  EXPECT_EQ(token, 7U);
  EXPECT_TRUE(epoll->change(pipe->read, 0, 7));
  EXPECT_EQ(ready(*epoll, 0), 0U);
  EXPECT_TRUE(epoll->change(pipe->read, EPOLLIN, 8));
  EXPECT_EQ(ready(*epoll, 0), 1U);
  epoll->remove(pipe->read);
  epoll->remove(pipe->read);
  EXPECT_EQ(ready(*epoll, 0), 0U);
}

TEST(Epoll, FailuresTellWhy) {
  const auto epoll = Epoll::open();
  const auto pipe = open_pipe();
  ASSERT_TRUE(epoll && pipe);
  EXPECT_EQ(epoll->change(pipe->read, EPOLLIN, 1).error().os_errno, ENOENT);
  EXPECT_TRUE(epoll->add(pipe->read, EPOLLIN));
  EXPECT_EQ(epoll->add(pipe->read, EPOLLIN).error().os_errno, EEXIST);
  std::array<epoll_event, 1> room;
  EXPECT_EQ(Epoll().wait(room, 0).error().os_errno, EBADF);
}

TEST(Epoll, ASignalEndsAWaitWithNothing) {
  const auto epoll = Epoll::open();
  ASSERT_TRUE(epoll);
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  // Again and again, so that one comes while the wait is on.
  const itimerval often{{0, 20'000}, {0, 20'000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  EXPECT_EQ(ready(*epoll, -1), 0U);
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

}  // namespace
}  // namespace glovebox
