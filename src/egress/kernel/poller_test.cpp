#include "egress/kernel/poller.h"

#include <gtest/gtest.h>

#include <string>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace glovebox::egress {
namespace {

class Signal {
 public:
  void raise() const { EXPECT_EQ(::eventfd_write(fd_.get(), 1), 0); }
  BorrowedFd fd() const { return fd_; }

 private:
  UniqueFd fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

TEST(Poller, WhoAsksWithoutPauseComesAfterWhoAsksNowAndThen) {
  const auto poller = *Poller::open();
  const Signal busy;
  const Signal rare;
  std::string order;
  ASSERT_TRUE(poller->watch(busy.fd(), EPOLLIN, [&](std::uint32_t) { order += 'b'; }));
  ASSERT_TRUE(poller->watch(rare.fd(), EPOLLIN, [&](std::uint32_t) { order += 'r'; }));
  busy.raise();  // and stays so
  for (int i = 0; i < 3; ++i) poller->run_ready();
  rare.raise();
  poller->run_ready();
  EXPECT_EQ(order, "bbbrb");
}

TEST(Poller, AHandlerMayTakeAnotherAway) {
  const auto poller = *Poller::open();
  const Signal one;
  const Signal two;
  Poller::Token tokens[2];
  int count = 0;
  tokens[0] = *poller->watch(one.fd(), EPOLLIN, [&](std::uint32_t) {
    ++count;
    poller->unwatch(tokens[1]);
  });
  tokens[1] = *poller->watch(two.fd(), EPOLLIN, [&](std::uint32_t) {
    ++count;
    poller->unwatch(tokens[0]);
  });
  one.raise();
  two.raise();
  poller->run_ready();
  poller->run_ready();
  EXPECT_EQ(count, 2) << "the one that was left, twice";
}

}  // namespace
}  // namespace glovebox::egress
