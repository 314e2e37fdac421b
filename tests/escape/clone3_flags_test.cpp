// Class 18: clone3 takes its flags through a pointer, where a filter cannot look. It must not exist
// in a box, and C libraries must get along without it.
// Tried: clone3 plain and with every namespace flag.
// Canary: threads and processes still work, by clone.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

class Clone3Flags : public BoxTest {};

TEST_P(Clone3Flags, Clone3DoesNotExist) {
  EXPECT_THAT(probe({}, {"clone3"}), ended_with(ENOSYS));
  for (const char* name : {"user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time"}) {
    EXPECT_THAT(probe({}, {"clone3", name}), ended_with(ENOSYS)) << name;
  }
}

TEST_P(Clone3Flags, ThreadsAndProcessesWorkWithoutIt) {
  EXPECT_THAT(probe({}, {"thread"}), ended_with(0));
  EXPECT_THAT(probe({}, {"fork"}), ended_with(0));
  EXPECT_THAT(run({}, {"/usr/bin/perl", "-e", "system('true') == 0 or die; exit 0"}),
              ended_with(0));
}

BOX_TEST_TIERS(Clone3Flags);

}  // namespace
}  // namespace glovebox::test
