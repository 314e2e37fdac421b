#include "base/pidfd.h"

#include "base/pipe.h"

#include <gtest/gtest.h>

#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox {
namespace {

struct Child {
  pid_t pid;
  UniqueFd process;
};

Child start_waiting_child() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    while (true) ::pause();
  }
  auto process = open_pidfd(pid);
  EXPECT_TRUE(process);
  return {pid, process ? *std::move(process) : UniqueFd()};
}

void await_end(BorrowedFd process) {
  pollfd wait{process.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 10'000), 1);
}

TEST(Pidfd, AChildIsEndedAndReapedOnce) {
  const Child child = start_waiting_child();
  EXPECT_FALSE(has_ended(child.process));
  EXPECT_TRUE(kill_process(child.process));
  await_end(child.process);
  EXPECT_TRUE(has_ended(child.process));
  EXPECT_TRUE(has_ended(child.process));  // asking does not reap it
  const auto reaped = reap_process(child.process);
  ASSERT_TRUE(reaped);
  EXPECT_EQ(reaped->info.si_pid, child.pid);
  EXPECT_EQ(reaped->info.si_code, CLD_KILLED);
  EXPECT_EQ(reaped->info.si_status, SIGKILL);
  EXPECT_FALSE(reap_process(child.process));
}

TEST(Pidfd, AProcessThatHasEndedIsKilledWithoutFailure) {
  const Child child = start_waiting_child();
  EXPECT_TRUE(kill_process(child.process));
  (void)reap_process(child.process);
  EXPECT_TRUE(kill_process(child.process));
  EXPECT_FALSE(has_ended(child.process));  // no child of ours any more
}

TEST(Pidfd, FailuresTellWhy) {
  const auto none = open_pidfd(-1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().os_errno, EINVAL);
  const auto no_process = kill_process(BorrowedFd(-1));
  ASSERT_FALSE(no_process);
  EXPECT_EQ(no_process.error().os_errno, EBADF);
}

TEST(Pipe, BothEndsCloseOnExecAndWait) {
  const auto pipe = open_pipe();
  ASSERT_TRUE(pipe);
  EXPECT_TRUE(set_nonblocking(pipe->read));
  char byte = 0;
  EXPECT_EQ(::read(pipe->read.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(::write(pipe->write.get(), "x", 1), 1);
  EXPECT_EQ(::read(pipe->read.get(), &byte, 1), 1);
  for (const UniqueFd* end : {&pipe->read, &pipe->write}) {
    EXPECT_EQ(::fcntl(end->get(), F_GETFD), FD_CLOEXEC);
  }
  EXPECT_EQ(::fcntl(pipe->write.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(SocketPair, KeepsMessagesApart) {
  const auto pair = open_socket_pair(SOCK_SEQPACKET);
  ASSERT_TRUE(pair);
  EXPECT_EQ(::send(pair->ours.get(), "one", 3, 0), 3);
  EXPECT_EQ(::send(pair->ours.get(), "two", 3, 0), 3);
  char text[8];
  EXPECT_EQ(::recv(pair->theirs.get(), text, sizeof(text), 0), 3);
  EXPECT_EQ(::fcntl(pair->theirs.get(), F_GETFD), FD_CLOEXEC);
}

}  // namespace
}  // namespace glovebox
