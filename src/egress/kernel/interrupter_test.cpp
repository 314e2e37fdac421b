#include "egress/kernel/interrupter.h"

#include "base/unique_fd.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace glovebox::egress {
namespace {

// Waits for bytes that never come. Without an interrupter that would be for good, so the socket has
// a patience after which the test fails. An errno.
int wait_in_vain() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  const timeval patience{60, 0};
  EXPECT_EQ(::setsockopt(one.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  char byte = 0;
  return ::read(one.get(), &byte, 1) < 0 ? errno : 0;
}

// 0: nothing came for three periods.
int wait_quietly() {
  const auto time = 3 * Interrupter::kPeriod;
  return ::poll(nullptr, 0, static_cast<int>(time.count())) == 0 ? 0 : errno;
}

TEST(Interrupter, EndsEveryCallThatWaitsInATurn) {
  Interrupter interrupter;
  ASSERT_TRUE(interrupter.open());
  const Interrupter::Turn turn(interrupter);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(wait_in_vain(), EINTR) << i;
}

// A call with a patience of its own, as above, is not begun again in any case.
TEST(Interrupter, BeginsNoCallAgain) {
  Interrupter interrupter;
  ASSERT_TRUE(interrupter.open());
  struct sigaction action{};
  ASSERT_EQ(::sigaction(interrupter.signal_number(), nullptr, &action), 0);
  EXPECT_EQ(action.sa_flags & SA_RESTART, 0);
}

TEST(Interrupter, LeavesCallsBetweenTurnsAlone) {
  Interrupter interrupter;
  ASSERT_TRUE(interrupter.open());
  EXPECT_EQ(wait_quietly(), 0);
  for (int i = 0; i < 3; ++i) {
    {
      const Interrupter::Turn turn(interrupter);
    }
    EXPECT_EQ(wait_quietly(), 0) << i;
  }
}

TEST(Interrupter, ATurnLivesAsLongAsTheOneAroundIt) {
  Interrupter interrupter;
  ASSERT_TRUE(interrupter.open());
  const Interrupter::Turn outer(interrupter);
  {
    const Interrupter::Turn inner(interrupter);
  }
  EXPECT_EQ(wait_in_vain(), EINTR);
}

// As the library's thread has them.
TEST(Interrupter, WorksInAThreadThatHasAllSignalsBlocked) {
  Interrupter interrupter;
  ASSERT_TRUE(interrupter.open());
  std::thread([&] {
    sigset_t all;
    sigfillset(&all);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &all, nullptr), 0);
    const Interrupter::Turn turn(interrupter);
    EXPECT_EQ(wait_in_vain(), EINTR);
  }).join();
  const Interrupter::Turn turn(interrupter);
  EXPECT_EQ(wait_in_vain(), EINTR) << "and back in the first";
}

TEST(Interrupter, EachIsOfItsOwnThread) {
  Interrupter one, other;
  ASSERT_TRUE(one.open());
  ASSERT_TRUE(other.open());
  EXPECT_EQ(one.signal_number(), other.signal_number());
  const Interrupter::Turn turn(one);
  std::thread([&] {
    EXPECT_EQ(wait_quietly(), 0);
    const Interrupter::Turn own(other);
    EXPECT_EQ(wait_in_vain(), EINTR);
  }).join();
}

TEST(Interrupter, TakesNoSignalThatTheProgramUses) {
  struct sigaction before{};
  struct sigaction own{};
  own.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGRTMAX, &own, &before), 0);
  Interrupter interrupter;
  ASSERT_TRUE(interrupter.open());
  EXPECT_NE(interrupter.signal_number(), SIGRTMAX);
  struct sigaction after{};
  ASSERT_EQ(::sigaction(SIGRTMAX, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, own.sa_handler);
}

}  // namespace
}  // namespace glovebox::egress
