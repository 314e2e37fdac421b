// Walls that the kernel was asked for and that are not there, because something around glovebox
// answers in its place: a container's filter that says 0 to a call and does not make it.
// Tried: glovebox runs under such a filter, for every call that a wall is made of.
// Canary: a file that the command would make. The launch is refused with a sentence that names the
// step, and the file is not there.
#include "support/box_test.h"

#include <filesystem>
#include <vector>

#include <grp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

class AnsweredCalls : public BoxTest {
 protected:
  Outcome run_under(const AnsweredCall& call, const std::string& work) {
    Settings settings;
    settings.answered_calls = {call};
    return run({"-w", work + ":rw"}, {"/usr/bin/touch", work + "/ran"}, settings);
  }

  // Refused by the step's name, whatever the kernel then said.
  Outcome expect_refusal_at(const std::string& step, const AnsweredCall& call) {
    const std::string work = make_directory("work" + std::to_string(++count_));
    Outcome outcome = run_under(call, work);
    EXPECT_THAT(outcome, refused_to_start(step));
    EXPECT_FALSE(std::filesystem::exists(work + "/ran")) << step;
    EXPECT_LT(outcome.err.size(), 1000U) << "one sentence";
    return outcome;
  }
  // And because what was asked for is not there.
  void expect_refusal(const std::string& step, const AnsweredCall& call) {
    EXPECT_THAT(expect_refusal_at(step, call), refused_to_start("in the kernel's place")) << step;
  }

 private:
  int count_ = 0;
};

TEST_P(AnsweredCalls, TheFilterIsMissed) { expect_refusal("filter", {SYS_seccomp}); }

TEST_P(AnsweredCalls, TheRootIsMissed) {
  expect_refusal("pivot-root", {SYS_pivot_root});
  expect_refusal("root", {SYS_umount2});
}

TEST_P(AnsweredCalls, LandlockIsMissed) {
  expect_refusal("landlock-enforce", {SYS_landlock_restrict_self});
}

TEST_P(AnsweredCalls, NamespacesAreMissed) {
  expect_refusal("enter-network", {SYS_setns});
  // In the host's network namespace the box has no power to bring a device up.
  expect_refusal_at("network", {SYS_unshare});
  expect_refusal("namespace", {SYS_clone3});
}

TEST_P(AnsweredCalls, CapabilitiesAreMissed) {
  expect_refusal("privileges", {SYS_capset});
  expect_refusal("privileges", {SYS_prctl, PR_CAPBSET_DROP});
  expect_refusal("privileges", {SYS_prctl, PR_SET_SECUREBITS});
}

TEST_P(AnsweredCalls, OpenDescriptorsAreMissed) {
  expect_refusal("close-files", {SYS_close_range});
}

TEST_P(AnsweredCalls, MountsAreMissed) {
  expect_refusal("attach", {SYS_move_mount});
  expect_refusal("-", {SYS_mount_setattr});
}

TEST_P(AnsweredCalls, IdentityAndTiesAreMissed) {
  expect_refusal("map-identity", {SYS_prctl, PR_SET_PDEATHSIG});
  // As root the launcher's own steps rest on these too, and the kernel notices. An ordinary user's
  // box has the right ids from its birth.
  if (as_root()) {
    expect_refusal_at("map-identity", {SYS_setresuid});
    expect_refusal_at("map-identity", {SYS_prctl, PR_SET_DUMPABLE});
  } else {
    expect_refusal("map-identity", {SYS_prctl, PR_SET_DUMPABLE});
  }
}

TEST_P(AnsweredCalls, LimitsAndNamesAreMissed) {
  expect_refusal("limit", {SYS_prlimit64});
  expect_refusal("set-hostname", {SYS_sethostname});
}

TEST_P(AnsweredCalls, AnOwnSessionIsMissed) {
  const std::string work = make_directory("session");
  EXPECT_THAT(run_under({SYS_setsid}, work), testing::Not(ended_with(0)));
  EXPECT_FALSE(std::filesystem::exists(work + "/ran"));
}

TEST_P(AnsweredCalls, GroupsAndKeyringsAreMissed) {
  expect_refusal("keyring", {SYS_keyctl});
  if (!as_root()) return;
  // Without a group to give up there is nothing to miss.
  std::vector<gid_t> own(static_cast<std::size_t>(getgroups(0, nullptr)));
  ASSERT_EQ(getgroups(static_cast<int>(own.size()), own.data()), static_cast<int>(own.size()));
  const gid_t extra = 4;
  ASSERT_EQ(setgroups(1, &extra), 0);
  expect_refusal("groups", {SYS_setgroups});
  ASSERT_EQ(setgroups(own.size(), own.data()), 0);
}

// What no wall is made of: the box is whole, and runs.
TEST_P(AnsweredCalls, OthersAreNoReason) {
  const std::string work = make_directory("work");
  EXPECT_THAT(run_under({SYS_fchownat}, work), ended_with(0));
  EXPECT_TRUE(std::filesystem::exists(work + "/ran"));
}

BOX_TEST_TIERS(AnsweredCalls);

}  // namespace
}  // namespace glovebox::test
