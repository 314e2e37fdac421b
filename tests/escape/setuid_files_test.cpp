// Class 24: setuid programs and file capabilities, to gain rights inside; and setuid files left in
// a workspace, to gain the rights of its owner (as root: root's) outside. Tried: the system's
// setuid programs; a setuid copy of the probe in a grant; making one inside by every call that sets
// a mode, and file capabilities. Canary: the mode of the file outside.
#include "support/box_test.h"

#include <filesystem>

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class SetuidFiles : public BoxTest {};

TEST_P(SetuidFiles, SetuidProgramsRunAsTheBoxsUser) {
  const std::string work = make_directory("work");
  const std::string copy = work + "/raise";
  std::filesystem::copy_file(installation().probe(), copy);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(copy.c_str(), 0, 0), 0);
  }
  ASSERT_EQ(chmod(copy.c_str(), 06755), 0);
  for (const Words& options :
       {Words{"-w", work + ":rw"}, Words{"--read", work}, Words{"--read", copy}}) {
    const Outcome outcome = run(options, {copy, "ids"});
    ASSERT_THAT(outcome, ended_with(0));
    const std::string id = as_root() ? "1000" : std::to_string(caller_ids().uid);
    EXPECT_EQ(lines_after(outcome.out, "uid "),
              Words{id + " " + id + " " + id + " gid " + id + " " + id + " " + id});
    EXPECT_THAT(run(options, {copy, "caps"}), ended_with(0));
  }
}

TEST_P(SetuidFiles, SystemsSetuidProgramsGiveNothing) {
  const Outcome outcome = run({}, {"/bin/su", "-c", "id", "root"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("uid=0")));
}

TEST_P(SetuidFiles, NoneCanBeLeftInAWorkspace) {
  const std::string work = make_directory("work");
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"setuid_file", work + "/trap"}), ended_with(EPERM));
  EXPECT_TRUE(std::filesystem::exists(work + "/trap"));
  for (const auto& entry : std::filesystem::directory_iterator(work)) {
    struct stat info{};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & (S_ISUID | S_ISGID), 0U)
        << entry.path() << ": a setuid file of the owner outside";
  }
}

TEST_P(SetuidFiles, CopyWithASetuidModeIsRefused) {
  const std::string work = make_directory("work");
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"copy_self", work + "/trap", "04755"}),
              ended_with(EPERM));
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"copy_self", work + "/fine", "0755"}), ended_with(0));
  EXPECT_NE(run({"-w", work + ":rw"}, {"/bin/chmod", "u+s", work + "/fine"}).code, 0);
  EXPECT_NE(run({"-w", work + ":rw"},
                {"/usr/bin/install", "-m", "4755", "/bin/true", work + "/installed"})
                .code,
            0);
  for (const auto& entry : std::filesystem::directory_iterator(work)) {
    struct stat info{};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & (S_ISUID | S_ISGID), 0U) << entry.path();
  }
}

TEST_P(SetuidFiles, FileCapabilitiesCannotBeSet) {
  const std::string work = make_directory("work");
  ASSERT_THAT(probe({"-w", work + ":rw"}, {"copy_self", work + "/program"}), ended_with(0));
  EXPECT_NE(run({"-w", work + ":rw"}, {"/sbin/setcap", "cap_setuid+ep", work + "/program"}).code,
            0);
  EXPECT_LT(getxattr((work + "/program").c_str(), "security.capability", nullptr, 0), 0);
}

TEST_P(SetuidFiles, OrdinaryModesCanBeSet) {
  const std::string work = make_tree("work");
  EXPECT_THAT(probe({"-w", work + ":rw"}, {"chmod", work + "/old", "0700"}), ended_with(0));
}

BOX_TEST_TIERS(SetuidFiles);

}  // namespace
}  // namespace glovebox::test
