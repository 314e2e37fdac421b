// Class 21: the side outside resolves a path that the box controls and follows a link planted
// there. Tried: links at the final and at an intermediate component of a workspace, of grants, and
// of the mount points that a launch needs, all made by an earlier box; a report path that the box
// replaced. Canary: a file and a directory outside, unread and unchanged.
#include "support/box_test.h"

#include <filesystem>

namespace glovebox::test {
namespace {

class PlantedSymlinks : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    if (IsSkipped()) return;
    secret_ = make_directory("secret");
    make_file("secret/canary", "outside-canary\n");
    work_ = make_tree("work");
  }
  void expect_untouched() const {
    EXPECT_EQ(read_text(secret_ + "/canary"), "outside-canary\n");
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(secret_)) {
      ++count;
      EXPECT_EQ(entry.path().filename(), "canary") << "made outside";
    }
    EXPECT_EQ(count, 1U);
  }
  std::string secret_, work_;
};

TEST_P(PlantedSymlinks, LinksInTheWorkspaceLeadNowhereInside) {
  EXPECT_THAT(probe({"-w", work_ + ":rw"}, {"symlink", secret_ + "/canary", work_ + "/file"}),
              ended_with(0));
  EXPECT_THAT(probe({"-w", work_ + ":rw"}, {"symlink", secret_, work_ + "/dir"}), ended_with(0));
  EXPECT_THAT(probe({"-w", work_ + ":rw"}, {"read", work_ + "/file"}), ended_with(ENOENT));
  EXPECT_THAT(probe({"-w", work_ + ":rw"}, {"read", work_ + "/dir/canary"}), ended_with(ENOENT));
  EXPECT_THAT(probe({"-w", work_ + ":rw"}, {"create", work_ + "/dir/new"}),
              refused_with(Errnos{ENOENT, EACCES, EROFS, EEXIST}));
  expect_untouched();
}

TEST_P(PlantedSymlinks, GrantBelowAWritableTreeIsResolvedBeforeTheBoxExists) {
  // An earlier box replaced "inner" by a link out. Naming it as a grant hands in what the link
  // means to the caller, at the place where that lies, and never mounts over a place outside.
  EXPECT_THAT(probe({"-w", work_ + ":rw"}, {"symlink", "/etc", work_ + "/inner"}), ended_with(0));
  const Outcome outcome = probe({"-w", work_ + ":rw", "--read", work_ + "/inner"},
                                {"mounts", "/tmp", "/run", "/home", "/proc", work_});
  EXPECT_THAT(outcome, testing::AnyOf(ended_with(0), refused_to_start("")));
  EXPECT_TRUE(std::filesystem::is_symlink(work_ + "/inner"));
  expect_untouched();
}

TEST_P(PlantedSymlinks, MountPointsInAWritableTreeAreNotFollowed) {
  // The launch attaches `inner` inside `work`; while boxes run, another process swaps it for a
  // link.
  const std::string inner = make_tree("work/inner");
  const std::string flip = "for (1..200) { rename('" + inner + "', '" + inner +
                           ".real'); symlink('" + secret_ + "', '" + inner + "'); unlink('" +
                           inner + "'); rename('" + inner + ".real', '" + inner + "') }";
  Launch launch;
  launch.argv = {"/usr/bin/perl", "-e", "while (1) { " + flip + " }"};
  launch.ids = caller();
  {
    Process flipper(launch);
    for (int i = 0; i < 40; ++i) {
      const Outcome outcome = run({"-w", work_ + ":rw", "--write", inner},
                                  {"/bin/sh", "-c", "cat inner/canary; echo x > inner/made"});
      EXPECT_FALSE(outcome.timed_out);
      if (outcome.code == 125) {
        EXPECT_THAT(outcome.err, testing::StartsWith("glovebox: "));
      }
    }
  }
  EXPECT_EQ(read_text(secret_ + "/canary"), "outside-canary\n");
}

TEST_P(PlantedSymlinks, ReportIsNotWrittenThroughALink) {
  const std::string report = work_ + "/report.json";
  const Outcome outcome =
      glovebox({"run", "--report", report, "-w", work_ + ":rw", "--", "/bin/sh", "-c",
                "rm -f report.json; ln -s " + secret_ + "/canary report.json"});
  EXPECT_EQ(outcome.code, 0);
  expect_untouched();
}

TEST_P(PlantedSymlinks, LinksThatStayInsideWork) {
  EXPECT_THAT(probe({"-w", work_ + ":rw"}, {"symlink", "old", work_ + "/link"}), ended_with(0));
  EXPECT_THAT(probe({"-w", work_ + ":rw"}, {"read", work_ + "/link"}), ended_with(0));
}

BOX_TEST_TIERS(PlantedSymlinks);

}  // namespace
}  // namespace glovebox::test
