// Class 16: io_uring performs opens, sockets and connects that a system call filter never sees.
// Tried: setting up a ring, entering and registering, with the calls a library would make.
// Canary: none is needed; without a ring nothing can be submitted.
#include "support/box_test.h"

#include <sys/syscall.h>

namespace glovebox::test {
namespace {

class IoUring : public BoxTest {};

TEST_P(IoUring, NoRingCanBeMade) {
  EXPECT_THAT(probe({}, {"io_uring"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"io_uring_enter"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"io_uring_register"}), ended_with(EPERM));
}

TEST_P(IoUring, OlderAsynchronousCallsAreAbsentToo) {
  EXPECT_THAT(probe({}, {"syscall", std::to_string(SYS_io_setup), "1", "0"}),
              refused_with(Errnos{ENOSYS, EPERM}));
}

TEST_P(IoUring, OrdinaryInputAndOutputWork) {
  const Outcome outcome = run({}, {"/bin/dd", "if=/dev/zero", "of=/tmp/x", "bs=64k", "count=16"});
  EXPECT_THAT(outcome, ended_with(0));
}

BOX_TEST_TIERS(IoUring);

}  // namespace
}  // namespace glovebox::test
