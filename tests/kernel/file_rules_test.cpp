// What the terms about files mean inside: each with an act that is allowed and one that is refused.
#include "support/box_test.h"
#include "support/host_socket.h"

#include <filesystem>

#include <sys/socket.h>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;

const Errnos kCovered{EACCES, ENOENT, EROFS};
const Errnos kStuck{EBUSY, EXDEV, EACCES, EROFS};

class FileRules : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    tree_ = make_tree("tree");
    private_ = make_tree("tree/private");
    make_directory("tree/private/deep");
    open_ = make_tree("tree/private/deep/open");
    sibling_ = make_tree("tree/privateer");
  }
  // Hands the tree in by `word` and denies the rest.
  Words rules(const std::string& word, const Words& denials) const {
    Words words{"--allow", word + "=" + tree_};
    for (const std::string& denial : denials) words.insert(words.end(), {"--deny", denial});
    return words;
  }

  std::string tree_, private_, open_, sibling_;
};

TEST_P(FileRules, AllowReadReadsAndNoMore) {
  const Words words = rules("read", {});
  EXPECT_THAT(probe(words, {"read", tree_ + "/old"}), ended_with(0));
  EXPECT_THAT(probe(words, {"write", tree_ + "/old"}), ended_with(EROFS));
  EXPECT_THAT(probe(words, {"read", scratch() + "/other"}), refused_with(kCovered));
}

TEST_P(FileRules, AllowOfASingleFileIsThatFileAlone) {
  const Words words{"--allow", "write=" + tree_ + "/old"};
  EXPECT_THAT(probe(words, {"write", tree_ + "/old"}), ended_with(0));
  EXPECT_THAT(probe(words, {"list", sibling_}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"rename", tree_ + "/old", tree_ + "/new"}), refused_with(kStuck));
  EXPECT_THAT(probe(words, {"unlink", tree_ + "/old"}), refused_with(kStuck));
}

TEST_P(FileRules, DenyInsideAllowHidesTheTreeAndNotItsSiblings) {
  const Words words = rules("read", {"read=" + private_});
  EXPECT_THAT(probe(words, {"read", private_ + "/old"}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"list", private_}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"read", sibling_ + "/old"}), ended_with(0));
  EXPECT_THAT(probe(words, {"read", tree_ + "/old"}), ended_with(0));
}

TEST_P(FileRules, DenyOfAFileHidesItsContent) {
  const Words words = rules("write", {"read=" + tree_ + "/old"});
  EXPECT_THAT(probe(words, {"read", tree_ + "/old"}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"write", tree_ + "/old"}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"write", sibling_ + "/old"}), ended_with(0));
  EXPECT_EQ(read_text(tree_ + "/old"), read_text(private_ + "/old"));
}

TEST_P(FileRules, AllowInsideDenyShowsThrough) {
  Words words = rules("read", {"read=" + private_});
  words.insert(words.end(), {"--allow", "write=" + open_});
  EXPECT_THAT(probe(words, {"write", open_ + "/old"}), ended_with(0));
  EXPECT_THAT(probe(words, {"read", private_ + "/old"}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"list", private_}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"create", private_ + "/new"}), refused_with(kCovered));
}

TEST_P(FileRules, ACoverCannotBeMovedLinkedOrMadeReadable) {
  const Words words = rules("write", {"read=" + private_});
  EXPECT_THAT(probe(words, {"rename", private_, tree_ + "/moved"}), refused_with(kStuck));
  EXPECT_THAT(probe(words, {"link", private_ + "/old", tree_ + "/linked"}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"rmdir", private_}), refused_with(kStuck));
  EXPECT_THAT(probe(words, {"chmod", private_, "777"}), refused_with(kStuck));
  EXPECT_THAT(probe(words, {"umount", private_}), refused_with(Errnos{EPERM}));
  EXPECT_THAT(probe(words, {"symlink", private_ + "/old", tree_ + "/link"}), ended_with(0));
  EXPECT_THAT(probe(words, {"read", tree_ + "/link"}), refused_with(kCovered));
}

TEST_P(FileRules, ADirectoryAboveADenialCannotBeRenamed) {
  const std::string deep = private_ + "/deep";
  for (const char* denied : {"read=", "write="}) {
    const Words words = rules("write", {denied + open_});
    for (const std::string& above : {private_, deep}) {
      EXPECT_THAT(probe(words, {"rename", above, above + "-moved"}), ended_with(EBUSY)) << above;
      EXPECT_THAT(probe(words, {"rename", above, tree_ + "/moved"}), refused_with(kStuck)) << above;
    }
    const Outcome exchanged = run(words, {"/bin/sh", "-c", "mv -T " + sibling_ + " " + deep});
    EXPECT_NE(exchanged.code, 0);
  }
  const Words words = rules("write", {"write=" + open_});
  EXPECT_THAT(probe(words, {"create", deep + "/new"}), ended_with(0));
  EXPECT_THAT(probe(words, {"rename", deep + "/new", deep + "/newer"}), ended_with(0));
  EXPECT_THAT(probe(words, {"rename", sibling_, tree_ + "/moved"}), ended_with(0));
  EXPECT_TRUE(fs::exists(tree_ + "/moved/old"));
}

TEST_P(FileRules, ADeniedNameIsNotMadeAnew) {
  const Words words = rules("write", {"write=" + open_});
  const std::string attack =
      "cd " + tree_ + "; mv private p2; mkdir -p " + open_ + "; echo evil > " + open_ +
      "/hook; cd private; mv deep d2; mkdir -p deep/open; " + "echo evil > deep/open/hook";
  EXPECT_NE(run(words, {"/bin/sh", "-c", attack}).code, 0);
  EXPECT_FALSE(fs::exists(open_ + "/hook"));
  EXPECT_TRUE(fs::exists(open_ + "/old"));
}

TEST_P(FileRules, WhatIsDeniedIsNotMovedToWhereTheNextBoxReadsIt) {
  const Words words = rules("write", {"read=" + open_ + "/old"});
  const std::string first =
      "cd " + private_ + "; mv deep d2; mkdir -p deep/open; : > deep/open/old";
  const std::string second = "cat " + private_ + "/d2/open/old " + sibling_ + "/old";
  run(words, {"/bin/sh", "-c", first});
  const Outcome outcome = run(words, {"/bin/sh", "-c", second});
  EXPECT_THAT(outcome, ended_with(1));
  EXPECT_EQ(outcome.out, read_text(sibling_ + "/old"));
}

TEST_P(FileRules, DenyWriteInsideWriteIsReadOnly) {
  const Words words = rules("write", {"write=" + private_});
  EXPECT_THAT(probe(words, {"write", tree_ + "/old"}), ended_with(0));
  EXPECT_THAT(probe(words, {"read", private_ + "/old"}), ended_with(0));
  EXPECT_THAT(probe(words, {"write", private_ + "/old"}), ended_with(EROFS));
  EXPECT_THAT(probe(words, {"create", private_ + "/new"}), refused_with(Errnos{EROFS, EACCES}));
  EXPECT_THAT(probe(words, {"unlink", private_ + "/old"}), refused_with(Errnos{EROFS, EACCES}));
  EXPECT_THAT(probe(words, {"rename", private_ + "/old", tree_ + "/got"}), refused_with(kStuck));
  EXPECT_THAT(probe(words, {"link", private_ + "/old", tree_ + "/got"}), refused_with(kStuck));
}

TEST_P(FileRules, LinksAreResolvedBeforeRulesAreCompared) {
  const std::string link = scratch() + "/link";
  fs::create_directory_symlink(private_, link);
  const Words words{"--allow", "read=" + tree_, "--deny", "read=" + link};
  EXPECT_THAT(probe(words, {"read", private_ + "/old"}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"read", tree_ + "/old"}), ended_with(0));
}

TEST_P(FileRules, MissingPathsAreRefusedBeforeAnythingRuns) {
  const std::string none = tree_ + "/none";
  EXPECT_THAT(run({"--allow", "read=" + none}, {"true"}), refused_to_start("does not exist"));
  EXPECT_THAT(run(rules("write", {"write=" + none}), {"true"}),
              refused_to_start("could create it"));
  EXPECT_THAT(run(rules("read", {"read=" + none}), {"true"}), ended_with(0));
  EXPECT_FALSE(fs::exists(none)) << "nothing is created on the host";
}

TEST_P(FileRules, ExecCanBeTakenAwayFromATree) {
  const std::string program = make_file("tree/program", "#!/bin/sh\nexit 7\n", 0755);
  EXPECT_THAT(run(rules("read", {}), {program}), ended_with(7));
  EXPECT_THAT(run(rules("read", {"exec=" + tree_}), {program}), ended_with(126));
  EXPECT_THAT(run(rules("read", {"exec=" + tree_}), {"/bin/sh", program}), ended_with(7))
      << "reading it is still allowed";
}

TEST_P(FileRules, ExecWithoutReadingIsRefused) {
  EXPECT_THAT(run({"--allow", "exec=" + tree_}, {"true"}), refused_to_start("without reading"));
}

TEST_P(FileRules, TheSystemCanBeNarrowed) {
  EXPECT_THAT(probe({}, {"read", "/etc/passwd"}), ended_with(0));
  EXPECT_THAT(probe({"--deny", "read=/etc/passwd"}, {"read", "/etc/passwd"}),
              refused_with(kCovered));
  EXPECT_THAT(probe({"--deny", "read=/etc/passwd"}, {"read", "/etc/group"}), ended_with(0));
  EXPECT_THAT(run({"--deny", "read=/usr/share"}, {"/bin/ls", "/usr/share"}), ended_with(2));
}

TEST_P(FileRules, NarrowingTheSystemGivesNothingAway) {
  ROOT_TIER_ONLY();
  // /etc mounted again without exec must not show root's own files as the box's.
  EXPECT_THAT(probe({"--deny", "exec=/etc"}, {"read", "/etc/shadow"}),
              refused_with(Errnos{EACCES}));
  EXPECT_THAT(probe({"--deny", "exec=/etc"}, {"read", "/etc/passwd"}), ended_with(0));
}

TEST_P(FileRules, ProcEntriesCanBeCovered) {
  EXPECT_THAT(probe({}, {"read", "/proc/meminfo"}), ended_with(0));
  EXPECT_THAT(probe({"--deny", "read=/proc/meminfo"}, {"read", "/proc/meminfo"}),
              refused_with(kCovered));
}

TEST_P(FileRules, SocketsAreHandedInOneByOne) {
  const std::string path = scratch() + "/service.sock";
  const HostSocket service(path, SOCK_STREAM);
  EXPECT_THAT(probe({}, {"connect_unix", path}), refused_with(Errnos{ENOENT, EACCES}));
  EXPECT_FALSE(service.was_reached());
  EXPECT_THAT(probe({"--allow", "unix=" + path}, {"connect_unix", path}), ended_with(0));
  EXPECT_TRUE(service.was_reached());
  EXPECT_THAT(probe({"--allow", "unix=" + path}, {"read", tree_ + "/old"}), refused_with(kCovered));
}

TEST_P(FileRules, ASocketInAReadableTreeCanBeCovered) {
  const std::string path = tree_ + "/service.sock";
  const HostSocket service(path, SOCK_STREAM);
  EXPECT_THAT(probe(rules("read", {"unix=" + path}), {"connect_unix", path}),
              refused_with(Errnos{ECONNREFUSED, EACCES}));
  Words granted = rules("read", {"unix=" + path});
  granted.insert(granted.end(), {"--allow", "unix=" + tree_});
  EXPECT_THAT(probe(granted, {"connect_unix", path}), refused_with(Errnos{ECONNREFUSED, EACCES}))
      << "where all others are granted";
  EXPECT_FALSE(service.was_reached());
}

TEST_P(FileRules, ManyRulesAreNoProblem) {
  Words words{"--allow", "read=" + tree_};
  for (int i = 0; i < 300; ++i) {
    const std::string name = "tree/many-" + std::to_string(i);
    words.insert(words.end(), {"--deny", "read=" + make_file(name, "x")});
  }
  EXPECT_THAT(probe(words, {"read", tree_ + "/many-299"}), refused_with(kCovered));
  EXPECT_THAT(probe(words, {"read", tree_ + "/old"}), ended_with(0));
}

TEST_P(FileRules, WhatCannotBeEnforcedIsRefusedByName) {
  for (const char* term :
       {"import=json", "subprocess=git", "clock", "random", "channel=a", "secret=TOKEN"}) {
    EXPECT_THAT(run({"--allow", term}, {"true"}), refused_to_start(term)) << term;
  }
  EXPECT_THAT(run({"--deny", "connect=*:443"}, {"true"}), ended_with(0));
  EXPECT_THAT(run({"--allow", "raed=/srv"}, {"true"}), refused_to_start("raed"));
}

TEST_P(FileRules, VariablesAndBudgetsHaveTheirTerms) {
  Settings settings;
  settings.environment = {"MINE=secret", "PATH=/usr/bin"};
  const Outcome passed = probe({"--allow", "env=MINE", "--allow", "env=SET=1"}, {"env"}, settings);
  EXPECT_THAT(passed.out, testing::HasSubstr("MINE=secret"));
  EXPECT_THAT(passed.out, testing::HasSubstr("SET=1"));
  const Outcome denied =
      probe({"--allow", "env=MINE", "--deny", "env=MINE", "--deny", "env=TERM"}, {"env"}, settings);
  EXPECT_THAT(denied.out, testing::Not(testing::HasSubstr("MINE")));
  EXPECT_THAT(denied.out, testing::Not(testing::HasSubstr("TERM")));
  EXPECT_THAT(probe({"--allow", "wall=300ms"}, {"sleep"}), ended_by_limit("wall"));
  EXPECT_THAT(probe({"--allow", "wall=10m", "--allow", "wall=300ms"}, {"sleep"}),
              ended_by_limit("wall"));
  EXPECT_THAT(probe({"--allow", "output=1KiB"}, {"output_flood", "1"}), ended_by_limit("output"));
  EXPECT_THAT(probe({"--allow", "open_files=32"}, {"open_files", "64"}),
              refused_with(Errnos{EMFILE}));
  EXPECT_THAT(probe({"--allow", "disk=1MiB"}, {"disk_fill", "/tmp/f", "2"}),
              refused_with(Errnos{ENOSPC}));
  EXPECT_THAT(probe({"--allow", "inodes=16"}, {"inode_fill", "/tmp", "64"}),
              refused_with(Errnos{ENOSPC}));
}

BOX_TEST_TIERS(FileRules);

}  // namespace
}  // namespace glovebox::test
