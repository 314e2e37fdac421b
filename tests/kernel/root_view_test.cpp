// What the box sees of the host's files: a read-only system, and no file of a user.
#include "support/box_test.h"

#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class RootView : public BoxTest {};

const Errnos kReadOnly{EROFS, EACCES, EPERM};

TEST_P(RootView, SystemIsReadable) {
  EXPECT_THAT(run({}, {"/bin/ls", "/usr/bin/env"}), ended_with(0));
  EXPECT_THAT(probe({}, {"read", "/etc/passwd"}), ended_with(0));
  EXPECT_THAT(probe({}, {"read", "/usr/bin/env"}), ended_with(0));
  for (const char* dir : {"/usr", "/bin", "/sbin", "/lib", "/etc"}) {
    EXPECT_THAT(probe({}, {"list", dir}), ended_with(0)) << dir;
  }
}

TEST_P(RootView, SystemIsNotWritable) {
  for (const char* dir : {"/", "/usr", "/usr/bin", "/etc", "/lib", "/var"}) {
    const std::string path = std::string(dir) + "/glovebox-probe-was-here";
    EXPECT_THAT(probe({}, {"create", path}), refused_with(kReadOnly)) << dir;
    EXPECT_THAT(probe({}, {"mkdir", path}), refused_with(kReadOnly)) << dir;
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_THAT(probe({}, {"open_write", "/etc/passwd"}), refused_with(kReadOnly));
  EXPECT_THAT(probe({}, {"open_write", "/usr/bin/env"}), refused_with(kReadOnly));
  EXPECT_THAT(probe({}, {"unlink", "/etc/hostname"}), refused_with(kReadOnly));
}

TEST_P(RootView, PrivatePlacesAreWritable) {
  for (const char* dir : {"/tmp", "/run", "/home/box", "/dev/shm", "/var/tmp", "/run/shm"}) {
    const std::string path = own_name_in(dir);
    EXPECT_THAT(probe({}, {"create", path}), ended_with(0)) << path;
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
  }
}

TEST_P(RootView, PrivatePlacesStartEmpty) {
  const std::string canary = "/tmp/glovebox-test-canary-" + std::to_string(getpid());
  write_text(canary, "outside");
  EXPECT_THAT(probe({}, {"read", canary}), ended_with(ENOENT));
  EXPECT_EQ(lines_after(probe({}, {"list", "/home/box"}).out, "entry "), Words{});
  EXPECT_EQ(lines_after(probe({}, {"list", "/dev/shm"}).out, "entry "), Words{});
  // The probe itself was granted below /tmp; only the way to it is there.
  const std::string way = std::filesystem::path(installation().directory()).filename();
  EXPECT_EQ(lines_after(probe({}, {"list", "/tmp"}).out, "entry "), Words{way});
  std::filesystem::remove(canary);
}

TEST_P(RootView, PrivateModesAreUsual) {
  EXPECT_THAT(lines_after(probe({}, {"stat", "/tmp"}).out, "mode="),
              testing::ElementsAre(testing::StartsWith("41777 ")));
}

TEST_P(RootView, OtherPeoplesFilesAreAbsent) {
  for (const char* path :
       {"/root/.profile", "/root/.bashrc", "/var/lib/dpkg", "/var/log", "/boot/grub", "/sys/kernel",
        "/sys/fs/cgroup", "/lost+found", "/mnt/x"}) {
    EXPECT_THAT(probe({}, {"list", path}), refused_with(Errnos{ENOENT, EACCES, ENOTDIR})) << path;
  }
  for (const auto& home : std::filesystem::directory_iterator("/home")) {
    EXPECT_THAT(probe({}, {"list", home.path()}), ended_with(ENOENT)) << home.path();
  }
}

TEST_P(RootView, TopHoldsNothingElse) {
  const Outcome outcome = probe({}, {"list", "/"});
  ASSERT_THAT(outcome, ended_with(0));
  for (const std::string& entry : lines_after(outcome.out, "entry ")) {
    EXPECT_THAT(entry, testing::AnyOf("usr", "bin", "sbin", testing::StartsWith("lib"), "etc",
                                      "proc", "dev", "tmp", "run", "home", "var"))
        << "'" << entry << "' is in the box's root";
  }
}

TEST_P(RootView, PasswordHashesAreUnreadable) {
  for (const char* path : {"/etc/shadow", "/etc/gshadow", "/etc/shadow-"}) {
    EXPECT_THAT(probe({}, {"read", path}), refused_with(Errnos{EACCES, ENOENT, EPERM})) << path;
  }
}

TEST_P(RootView, EveryMountIsSealed) {
  EXPECT_THAT(probe({}, {"mounts", "/tmp", "/run", "/home", "/proc"}), ended_with(0));
}

TEST_P(RootView, MountsWithGrantsAreSealedToo) {
  const std::string work = make_tree("work");
  const std::string book = make_tree("book");
  EXPECT_THAT(probe({"--workspace", work + ":rw", "--read", book},
                    {"mounts", "/tmp/none", "/run", "/home", "/proc", work.c_str(), "/tmp"}),
              ended_with(0));
  // Without naming the workspace as writable the check must complain: it does see it.
  EXPECT_THAT(probe({"--workspace", work + ":rw"}, {"mounts", "/run", "/home", "/proc"}),
              ended_with(EBADE));
}

TEST_P(RootView, TreeCannotBeChanged) {
  EXPECT_THAT(probe({}, {"mount", "/tmp"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"mount_proc", "/tmp"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"bind", "/usr", "/tmp"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"umount", "/proc"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"umount", "/"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"remount_rw", "/usr"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"mount_setattr", "/usr"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"pivot_root", "/tmp", "/tmp"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"chroot", "/tmp"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"fsopen"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"open_tree"}), ended_with(EPERM));
  EXPECT_THAT(probe({}, {"move_mount"}), ended_with(EPERM));
}

TEST_P(RootView, ClimbingEndsAtTheRoot) {
  EXPECT_THAT(probe({}, {"climb"}), ended_with(0));
  EXPECT_THAT(probe({}, {"getcwd"}), ended_with(0));
}

TEST_P(RootView, MetadataOfTheSystemCannotBeChanged) {
  EXPECT_THAT(probe({}, {"chmod", "/usr/bin/env", "0777"}), refused_with(kReadOnly));
  EXPECT_THAT(probe({}, {"utimes", "/usr/bin/env"}), refused_with(kReadOnly));
  EXPECT_THAT(probe({}, {"setxattr", "/usr/bin/env"}), refused_with(kReadOnly));
  EXPECT_THAT(probe({}, {"create", "/tmp/own"}), ended_with(0));
}

BOX_TEST_TIERS(RootView);

}  // namespace
}  // namespace glovebox::test
