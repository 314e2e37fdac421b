// Class 19: a user namespace inside the box would give all capabilities in it, and with them
// mounts, netfilter, overlay and other large pieces of the kernel. Tried: unshare and clone with
// every namespace flag alone and together with a user namespace, the unshare and mount commands of
// the system, writing an id map. Canary: a mount over /tmp never happens.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

class NestedNamespaces : public BoxTest {};

TEST_P(NestedNamespaces, NoneCanBeMade) {
  for (const char* name : {"user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time"}) {
    EXPECT_THAT(probe({}, {"unshare", name}), ended_with(EPERM)) << name;
  }
  for (const char* name : {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"}) {
    EXPECT_THAT(probe({}, {"clone_flag", name}), ended_with(EPERM)) << name;
  }
}

TEST_P(NestedNamespaces, CommandsOfTheSystemFailToo) {
  const Outcome outcome = run({}, {"/usr/bin/unshare", "-Urm", "/bin/sh", "-c", "echo entered"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(outcome.code, 124);
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("entered")));
  EXPECT_NE(run({}, {"/bin/mount", "-t", "tmpfs", "none", "/tmp"}).code, 0);
}

TEST_P(NestedNamespaces, NetfilterCannotBeReached) {
  EXPECT_THAT(probe({}, {"netlink", "12"}), refused_with(Errnos{EAFNOSUPPORT, EPERM}));
}

TEST_P(NestedNamespaces, IdMapsCannotBeWritten) {
  for (const char* file : {"uid_map", "gid_map", "setgroups"}) {
    EXPECT_THAT(probe({}, {"write", std::string("/proc/self/") + file, "0 0 1"}),
                refused_with(Errnos{EPERM, EACCES, EROFS, EINVAL}))
        << file;
  }
}

TEST_P(NestedNamespaces, OwnSharesCanBeTakenApart) {
  // CLONE_FILES and CLONE_FS concern the process alone.
  EXPECT_THAT(probe({}, {"fork"}), ended_with(0));
  EXPECT_THAT(probe({}, {"syscall", "272", "0x400"}), ended_with(0));
}

BOX_TEST_TIERS(NestedNamespaces);

}  // namespace
}  // namespace glovebox::test
