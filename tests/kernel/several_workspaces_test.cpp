// More than one workspace in a box, each with its own mode, at their own paths and at others.
#include "support/box_test.h"

#include <filesystem>
#include <sstream>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SeveralWorkspaces : public BoxTest {
 protected:
  Outcome shell(const Words& options, const std::string& words) {
    return run(options, {"/bin/sh", "-c", words});
  }
};

TEST_P(SeveralWorkspaces, EachHasItsOwnMode) {
  const std::string desk = make_tree("desk"), shelf = make_tree("shelf"), out = make_tree("out");
  const Outcome outcome =
      shell({"-w", desk, "-w", shelf + ":ro", "-w", out + ":rw"},
            "pwd; echo x >old; echo x >" + out + "/old; echo x >" + shelf + "/old");
  EXPECT_THAT(outcome, ended_with(2)) << outcome.err;
  EXPECT_EQ(outcome.out, desk + "\n");
  EXPECT_EQ(read_text(desk + "/old"), "old text\n") << "its change waits in a layer";
  EXPECT_EQ(read_text(shelf + "/old"), "old text\n");
  EXPECT_EQ(read_text(out + "/old"), "x\n");
}

TEST_P(SeveralWorkspaces, EachLayerIsNamedAndCommittedByItself) {
  const std::string one = make_tree("one"), two = make_tree("two");
  const Outcome outcome = shell({"-w", one, "-w", two}, "echo 1 >old; echo 2 >" + two + "/old");
  EXPECT_THAT(outcome, ended_with(0));
  std::istringstream layers(glovebox({"layers"}).out);
  std::size_t committed = 0;
  for (std::string line; std::getline(layers, line);) {
    if (line.find(two) == std::string::npos) continue;
    const std::string id = line.substr(0, line.find(' '));
    EXPECT_THAT(outcome.err, HasSubstr("glovebox commit " + id));
    EXPECT_THAT(glovebox({"commit", id}), ended_with(0));
    ++committed;
  }
  EXPECT_EQ(committed, 1U);
  EXPECT_EQ(read_text(two + "/old"), "2\n");
  EXPECT_EQ(read_text(one + "/old"), "old text\n");
}

TEST_P(SeveralWorkspaces, OneInsideAnotherKeepsItsMode) {
  const std::string outer = make_tree("outer"), inner = make_tree("outer/inner");
  const Outcome outcome = shell({"-w", outer, "-w", inner + ":rw"},
                                "echo x >old; echo x >inner/old; rm -rf inner; mv inner away");
  EXPECT_NE(outcome.code, 0) << "the place of a workspace stays";
  EXPECT_EQ(read_text(outer + "/old"), "old text\n");
  EXPECT_FALSE(fs::exists(outer + "/away"));
  EXPECT_TRUE(fs::exists(inner));
}

TEST_P(SeveralWorkspaces, DiscardedChangesAreSeenInsideAndLeaveNothing) {
  const std::string work = make_tree("work");
  const Outcome outcome = shell({"-w", work + ":discard"},
                                "echo new >old && mkdir sub && echo y >sub/f && cat old sub/f");
  EXPECT_THAT(outcome, ended_with(0)) << outcome.err;
  EXPECT_EQ(outcome.out, "new\ny\n");
  EXPECT_EQ(read_text(work + "/old"), "old text\n");
  EXPECT_FALSE(fs::exists(work + "/sub"));
  EXPECT_EQ(outcome.err, "") << "there is nothing to commit";
}

TEST_P(SeveralWorkspaces, WhatIsDiscardedIsBoundedByTheDiskBudget) {
  const std::string work = make_tree("work");
  const Outcome outcome = shell({"-w", work + ":discard", "--disk", "1MiB"},
                                "head -c 100000 /dev/zero >a && head -c 4000000 /dev/zero >b");
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("No space left"));
}

TEST_P(SeveralWorkspaces, ABindIsSeenAtTheOtherPathOnly) {
  const std::string data = make_tree("data");
  const Outcome outcome = shell({"--bind", data + ":/mnt/data"},
                                "cat /mnt/data/old; ls " + data + "; echo x >/mnt/data/old");
  EXPECT_THAT(outcome, ended_with(2));
  EXPECT_EQ(outcome.out, "old text\n");
  EXPECT_THAT(outcome.err, HasSubstr("No such file"));
  EXPECT_EQ(read_text(data + "/old"), "old text\n");
}

TEST_P(SeveralWorkspaces, AWritableBindWritesToItsSource) {
  const std::string data = make_tree("data"), file = make_file("file", "text\n", 0644);
  EXPECT_THAT(shell({"--bind", data + ":/mnt/data:rw", "--bind", file + ":/mnt/one:rw"},
                    "echo x >/mnt/data/new; echo y >/mnt/one"),
              ended_with(0));
  EXPECT_EQ(read_text(data + "/new"), "x\n");
  EXPECT_EQ(read_text(file), "y\n");
}

TEST_P(SeveralWorkspaces, ABindDoesNotUncoverWhatIsDenied) {
  const std::string data = make_tree("data");
  for (const std::string& denied : {data, data + "/old"}) {
    const Outcome outcome =
        shell({"--bind", data + ":/mnt/data", "--deny", "read=" + denied}, "cat /mnt/data/old");
    EXPECT_THAT(outcome, ended_with(125)) << denied;
    EXPECT_THAT(outcome.err, HasSubstr("cannot be shown at /mnt/data"));
  }
}

TEST_P(SeveralWorkspaces, BindsToTheBoxsOwnPlacesAreRefused) {
  const std::string data = make_tree("data");
  for (const char* inside : {"/", "/proc/1", "/dev/x", "/usr/bin", "/etc/../srv"}) {
    EXPECT_THAT(shell({"--bind", data + ":" + inside}, "true"), ended_with(125)) << inside;
  }
  EXPECT_THAT(shell({"--bind", data}, "true"), ended_with(125));
  EXPECT_THAT(shell({"--bind", "/:/mnt/host"}, "true"), ended_with(125));
  EXPECT_THAT(shell({"-w", data, "-w", data + ":rw"}, "true"), ended_with(125));
}

BOX_TEST_TIERS(SeveralWorkspaces);

}  // namespace
}  // namespace glovebox::test
