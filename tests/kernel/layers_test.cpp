// Workspaces whose changes wait for a commit, through the command line.
#include "support/box_test.h"

#include <filesystem>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Layers : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    work_ = make_tree("work");
    state_ = scratch() + "/.state";
  }

  Outcome in_box(const std::string& words, const std::string& mode = "") {
    return run({"-w", work_ + mode}, {"/bin/sh", "-c", words});
  }
  Outcome command(const Words& words) { return command_at(work_, words); }
  Outcome command_at(const std::string& directory, const Words& words) {
    Settings settings;
    settings.directory = directory;
    return glovebox(words, settings);
  }
  Outcome change(const std::string& workspace, const std::string& words,
                 const std::string& from = "/") {
    Settings settings;
    settings.directory = from;
    return run({"-w", workspace}, {"/bin/sh", "-c", words}, settings);
  }
  std::size_t layers() const {
    std::size_t count = 0;
    if (!fs::exists(state_ + "/layers")) return 0;
    for (const auto& entry : fs::directory_iterator(state_ + "/layers")) {
      if (entry.is_directory()) ++count;
    }
    return count;
  }

  std::string work_, state_;
};

TEST_P(Layers, TheOriginalIsUntouchedUntilACommit) {
  const Outcome outcome = in_box("echo changed > old; echo made > new; cat old new");
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out, "changed\nmade\n") << "the box sees its own changes";
  EXPECT_THAT(outcome.err, HasSubstr("2 changes"));
  EXPECT_THAT(outcome.err, HasSubstr("modified old"));
  EXPECT_NE(read_text(work_ + "/old"), "changed\n");
  EXPECT_FALSE(fs::exists(work_ + "/new"));

  EXPECT_THAT(command({"diff", "last"}).out, HasSubstr("+made"));
  EXPECT_THAT(command({"commit", "last"}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/old"), "changed\n");
  EXPECT_EQ(read_text(work_ + "/new"), "made\n");
}

TEST_P(Layers, UndoPutsBackWhatTheCommitChanged) {
  const std::string before = read_text(work_ + "/old");
  in_box("echo changed > old; echo made > new");
  ASSERT_THAT(command({"commit"}), ended_with(0));
  EXPECT_THAT(command({"undo"}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/old"), before);
  EXPECT_FALSE(fs::exists(work_ + "/new"));
}

TEST_P(Layers, WhatIsCommittedBelongsToTheOwner) {
  in_box("echo made > new; mkdir sub; echo deep > sub/deep");
  ASSERT_THAT(command({"commit"}), ended_with(0));
  for (const char* name : {"/new", "/sub", "/sub/deep"}) {
    struct stat info{};
    ASSERT_EQ(stat((work_ + name).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, caller_ids().uid) << name;
  }
}

TEST_P(Layers, AFileThatWasJustWrittenIsNoConflict) {
  for (int i = 0; i < 10; ++i) {
    write_text(work_ + "/old", "version " + std::to_string(i) + "\n");
    in_box("echo box >> old");
    EXPECT_THAT(command({"commit"}), ended_with(0)) << i;
    EXPECT_EQ(read_text(work_ + "/old"), "version " + std::to_string(i) + "\nbox\n");
  }
}

TEST_P(Layers, AChangeOfTheOriginalMeanwhileIsAConflict) {
  in_box("echo box > old; echo made > new");
  write_text(work_ + "/old", "mine\n");
  const Outcome refused = command({"commit", "last"});
  EXPECT_THAT(refused, ended_with(1));
  EXPECT_THAT(refused.out, HasSubstr("conflict old"));
  EXPECT_EQ(read_text(work_ + "/old"), "mine\n");
  EXPECT_FALSE(fs::exists(work_ + "/new")) << "all or nothing";
  EXPECT_THAT(command({"commit", "last", "--reject", "old"}), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/old"), "mine\n");
  EXPECT_TRUE(fs::exists(work_ + "/new"));
}

TEST_P(Layers, WhatWouldRunOnTheHostLaterIsHeld) {
  in_box(
      "mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; ln -s /etc/passwd out; "
      "echo fine > fine");
  const Outcome refused = command({"commit"});
  EXPECT_THAT(refused, ended_with(1));
  EXPECT_THAT(refused.out, HasSubstr("held .git/hooks/pre-commit"));
  EXPECT_THAT(refused.out, HasSubstr("held out"));
  EXPECT_FALSE(fs::exists(work_ + "/fine"));
  EXPECT_THAT(command({"commit", "--only", "fine"}), ended_with(0));
  EXPECT_TRUE(fs::exists(work_ + "/fine"));
  EXPECT_FALSE(fs::exists(work_ + "/.git"));
  EXPECT_THAT(command({"commit", "--accept", "**"}), ended_with(0));
  EXPECT_TRUE(fs::exists(work_ + "/.git/hooks/pre-commit"));
}

TEST_P(Layers, DeletedIsDeletedAndDirectoriesCanBeReplaced) {
  make_tree("work/tree");
  in_box("rm old; rm -r tree; mkdir tree; echo other > tree/other");
  ASSERT_THAT(command({"commit"}), ended_with(0));
  EXPECT_FALSE(fs::exists(work_ + "/old"));
  EXPECT_FALSE(fs::exists(work_ + "/tree/old"));
  EXPECT_EQ(read_text(work_ + "/tree/other"), "other\n");
}

TEST_P(Layers, ARunWithoutChangesLeavesNoLayer) {
  const Outcome outcome = in_box("cat old > /dev/null");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(layers(), 0u);
  EXPECT_THAT(run({"-w", work_, "--hostname", "no good"}, {"true"}), refused_to_start("host name"));
  EXPECT_EQ(layers(), 0u);
}

TEST_P(Layers, NeitherTheLayerNorOtherLayersAreReachable) {
  const Outcome outcome = in_box("echo x > new; ls " + state_ + " /tmp/layers; cat " + state_ +
                                 "/layers/*/layer.json; ls -a /tmp");
  EXPECT_THAT(outcome.out, Not(HasSubstr("layer")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("origin")));
}

TEST_P(Layers, DenialsHoldInALayeredWorkspace) {
  make_tree("work/secret");
  const std::string words = "cat secret/old; echo x > secret/new; ls secret; echo y > beside";
  const Outcome outcome =
      run({"-w", work_, "--deny", "read=" + work_ + "/secret"}, {"/bin/sh", "-c", words});
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("added beside"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("secret/new\n")));
}

TEST_P(Layers, ReadOnlyAndDirectModesNeedNoLayer) {
  EXPECT_NE(in_box("echo x > new", ":ro").code, 0);
  EXPECT_THAT(in_box("echo x > new", ":rw"), ended_with(0));
  EXPECT_EQ(read_text(work_ + "/new"), "x\n");
  EXPECT_EQ(layers(), 0u);
}

TEST_P(Layers, APolicySaysHowMuchAWorkspaceMayBeChanged) {
  const Words readonly{"--policy", "readonly", "-w", work_};
  EXPECT_NE(run(readonly, {"/bin/sh", "-c", "echo x > new"}).code, 0);
  EXPECT_THAT(run({"--policy", "readonly", "-w", work_ + ":rw"}, {"true"}),
              refused_to_start("no more than ro"));
  const Words agent{"--policy", "agent", "-w", work_};
  EXPECT_THAT(run(agent, {"/bin/sh", "-c", "echo x > new"}), ended_with(0));
  EXPECT_FALSE(fs::exists(work_ + "/new"));
  EXPECT_EQ(layers(), 1u);
}

TEST_P(Layers, LastIsThatOfTheWorkspaceHere) {
  const std::string other = make_tree("other");
  change(work_, "echo one > one");
  change(other, "echo two > two");
  EXPECT_THAT(command({"commit", "last"}).out, HasSubstr("taken over into " + work_));
  EXPECT_TRUE(fs::exists(work_ + "/one"));
  EXPECT_FALSE(fs::exists(other + "/two")) << "another project's changes are not what is here";
  EXPECT_THAT(command_at(other, {"diff", "last"}).out, HasSubstr("# changes in " + other));
  const Outcome nowhere = command_at("/", {"commit", "last"});
  EXPECT_THAT(nowhere, ended_with(125));
  EXPECT_THAT(nowhere.err, HasSubstr("no run in /"));
}

// A service decides by itself which of its layers are too many.
TEST_P(Layers, ARunDoesNotCollectTheLayersOfAService) {
  in_box("echo one > one");
  ASSERT_EQ(layers(), 1u);
  const std::string first = fs::directory_iterator(state_ + "/layers")->path();
  const std::string draft = state_ + "/layers/.removing-" + fs::path(first).filename().string();
  fs::rename(first, draft);
  write_text(state_ + "/sessions.db", "");
  in_box("echo two > two");
  EXPECT_TRUE(fs::exists(draft));
  fs::remove(state_ + "/sessions.db");
  in_box("echo three > three");
  EXPECT_FALSE(fs::exists(draft));
}

TEST_P(Layers, LastIsTheNewestOfWorkspacesAtOrAboveHere) {
  const std::string inner = make_tree("work/inner");
  const std::string below = make_directory("work/inner/below");
  change(inner, "echo i > from-inner");
  EXPECT_THAT(command_at(below, {"diff"}).out, HasSubstr("from-inner"));
  change(work_, "echo o > from-outer");
  EXPECT_THAT(command_at(below, {"diff"}).out, HasSubstr("from-outer"));
  change(inner, "echo i > from-inner-again");
  EXPECT_THAT(command_at(below, {"diff"}).out, HasSubstr("from-inner-again"));
  EXPECT_THAT(command({"diff"}).out, HasSubstr("from-outer")) << "the inner one is not above here";
}

TEST_P(Layers, ARunWithoutChangesMakesLastNothing) {
  change(work_, "echo one > one");
  for (const Words& options : {Words{"-w", work_}, Words{"-w", work_ + ":ro"}}) {
    ASSERT_THAT(run(options, {"/bin/true"}), ended_with(0));
    const Outcome nothing = command({"commit", "last"});
    EXPECT_THAT(nothing, ended_with(125));
    EXPECT_THAT(nothing.err, HasSubstr("the last run changed nothing ('/bin/true' in " + work_));
    EXPECT_FALSE(fs::exists(work_ + "/one"));
    change(work_, "echo two > two");
    EXPECT_THAT(command({"diff", "last"}).out, HasSubstr("two"));
  }
}

TEST_P(Layers, ARefusedRunMakesLastNothing) {
  change(work_, "echo one > one");
  ASSERT_THAT(run({"-w", work_, "--hostname", "no good"}, {"/bin/true"}),
              refused_to_start("host name"));
  const Outcome nothing = command({"commit", "last"});
  EXPECT_THAT(nothing, ended_with(125));
  EXPECT_THAT(nothing.err, HasSubstr("the last run was refused"));
  EXPECT_FALSE(fs::exists(work_ + "/one"));
  // The older layer is there, by its id.
  const std::string listed = command({"layers"}).out;
  EXPECT_THAT(listed, HasSubstr(work_));
  EXPECT_THAT(command({"commit", listed.substr(0, listed.find(' '))}), ended_with(0));
  EXPECT_TRUE(fs::exists(work_ + "/one"));
}

// Words that cannot be understood are a refusal, too.
TEST_P(Layers, AMistypedRunMakesLastNothing) {
  for (const Words& words : {Words{"-w", "."}, Words{"-w", work_}, Words{}}) {
    change(work_, "echo one > one");
    ASSERT_THAT(command({"diff", "last"}), ended_with(0));
    Words mistyped{"run"};
    mistyped.insert(mistyped.end(), words.begin(), words.end());
    mistyped.insert(mistyped.end(), {"--bogus", "--", "true"});
    ASSERT_THAT(command(mistyped), ended_with(125));
    const Outcome nothing = command({"commit", "last"});
    EXPECT_THAT(nothing, ended_with(125));
    EXPECT_THAT(nothing.err, HasSubstr("the last run was refused"));
  }
  EXPECT_FALSE(fs::exists(work_ + "/one"));
}

TEST_P(Layers, ARunWithoutAWorkspaceIsTheLastWhereItWasStarted) {
  change(work_, "echo one > one");
  Settings here;
  here.directory = work_;
  ASSERT_THAT(run({}, {"/bin/true"}, here), ended_with(0));
  EXPECT_THAT(command({"diff", "last"}).err, HasSubstr("changed nothing"));
}

TEST_P(Layers, ALinkToTheWorkspaceIsTheWorkspace) {
  const std::string link = scratch() + "/link";
  fs::create_directory_symlink(work_, link);
  change(link, "echo one > one");
  EXPECT_THAT(command_at(link, {"diff", "last"}).out, HasSubstr("# changes in " + work_));
  EXPECT_THAT(command({"commit", "last"}), ended_with(0));
}

TEST_P(Layers, InADirectoryThatIsGoneThereIsNoLast) {
  change(work_, "echo one > one");
  const std::string gone = make_directory("work/gone");
  Settings settings;
  settings.directory = gone;
  settings.wrapper = {"/bin/sh", "-c", "rmdir \"$PWD\"; exec \"$@\"", "sh"};
  const Outcome nothing = glovebox({"commit", "last"}, settings);
  EXPECT_THAT(nothing, ended_with(125));
  EXPECT_THAT(nothing.err, HasSubstr("current directory is gone"));
}

TEST_P(Layers, UndoTakesBackWhatWasCommittedHere) {
  const std::string other = make_tree("other");
  change(work_, "echo one > one");
  ASSERT_THAT(command({"commit"}), ended_with(0));
  change(other, "echo two > two");
  ASSERT_THAT(command_at(other, {"commit"}), ended_with(0));
  EXPECT_THAT(command({"undo"}).out, HasSubstr("taken back in " + work_));
  EXPECT_FALSE(fs::exists(work_ + "/one"));
  EXPECT_TRUE(fs::exists(other + "/two"));
  EXPECT_THAT(command_at("/", {"undo"}), ended_with(125));
}

TEST_P(Layers, EveryOutputNamesItsDirectory) {
  EXPECT_THAT(change(work_, "echo one > one").err, HasSubstr("1 change in " + work_ + " is kept"));
  for (const char* form : {"--stat", "--json"}) {
    EXPECT_THAT(command({"diff", "last", form}).out, HasSubstr(work_)) << form;
  }
  EXPECT_THAT(command({"diff", "last", "--tar"}).err, HasSubstr(work_));
  EXPECT_THAT(command({"commit", "last", "--dry-run"}).out, HasSubstr(work_));
  EXPECT_THAT(command({"commit", "last", "--dry-run", "--json"}).out, HasSubstr(work_));
  EXPECT_THAT(command({"layers", "--json"}).out, HasSubstr("\"origin\":\"" + work_ + "\""));
  const std::string listed = command({"layers"}).out;
  EXPECT_THAT(listed, HasSubstr(work_));
  EXPECT_THAT(command({"layers", "--remove", listed.substr(0, listed.find(' '))}).out,
              HasSubstr(work_));
}

TEST_P(Layers, EveryOutputOfACommitAndAnUndoNamesItsDirectory) {
  change(work_, "echo x > .envrc; echo one > one");
  const Outcome held = command({"commit"});
  EXPECT_THAT(held, ended_with(1));
  EXPECT_THAT(held.out, HasSubstr("nothing was taken over into " + work_ + ":"));
  EXPECT_THAT(command({"commit", "--reject", "*"}).out, HasSubstr(work_)) << "nothing is left";
  EXPECT_THAT(command({"commit", "--reject", ".envrc"}).out,
              HasSubstr("taken over into " + work_ + ": 1 "));
  write_text(work_ + "/one", "changed since\n");
  const Outcome conflict = command({"undo"});
  EXPECT_THAT(conflict, ended_with(1));
  EXPECT_THAT(conflict.out, HasSubstr("nothing was taken back in " + work_ + ":"));
}

// The name `last` is offered only where it means this layer.
TEST_P(Layers, TheSummaryCallsTheLayerByANameThatWorksHere) {
  EXPECT_THAT(change(work_, "echo one > one", work_).err, HasSubstr("'glovebox diff last'"));
  EXPECT_THAT(change(work_, "echo two > two", "/").err, Not(HasSubstr("'glovebox diff last'")));
}

BOX_TEST_TIERS(Layers);

}  // namespace
}  // namespace glovebox::test
