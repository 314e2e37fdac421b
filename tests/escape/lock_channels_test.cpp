// Class 27: locks, leases and watches on an inode that two boxes share carry signals between them,
// also when both may only read it.
// Tried: flock in one box while another holds it, on the system's files and on a shared grant.
// What is promised: private places share no inode. What is not: files of the read-only system and
// of a tree that was handed to both boxes are the same inodes, and an advisory lock on them can be
// seen by the other. Class 22's writes to metadata of such files are refused.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

class LockChannels : public BoxTest {};

TEST_P(LockChannels, PrivateFilesAreNotShared) {
  const std::string words = "echo x > /tmp/meet; exec " + probe_path() + " flock_hold /tmp/meet";
  Running holder = start({"--read", installation().probe_directory()}, {"/bin/sh", "-c", words});
  ASSERT_TRUE(holder.wait_for("holding"));
  const std::string other = "echo x > /tmp/meet; exec " + probe_path() + " flock /tmp/meet";
  EXPECT_THAT(run({"--read", installation().probe_directory()}, {"/bin/sh", "-c", other}),
              ended_with(0));
  kill(holder);
  holder.finish();
}

TEST_P(LockChannels, WatchesOnInitAreRefused) {
  EXPECT_THAT(probe({}, {"inotify", "/proc/1/mem"}), refused_with(Errnos{EACCES, EPERM}));
  EXPECT_THAT(probe({}, {"inotify", "/tmp"}), ended_with(0));
}

TEST_P(LockChannels, LeasesOnOthersFilesAreRefused) {
  // F_SETLEASE needs the file's owner or CAP_LEASE.
  EXPECT_THAT(probe({}, {"lease", "/etc/passwd"}), refused_with(Errnos{EACCES, EPERM}));
}

TEST_P(LockChannels, FanotifyIsRefused) {
  EXPECT_THAT(probe({}, {"syscall", "300", "0", "0"}), ended_with(EPERM));
}

BOX_TEST_TIERS(LockChannels);

}  // namespace
}  // namespace glovebox::test
