// Glovebox's own places, the state directory and the store of secrets, in trees that are handed in:
// no box sees them, forges something in them, or moves them away for the next box to find.
#include "support/box_test.h"

#include <filesystem>

#include <sys/stat.h>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OwnPlaces : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    home_ = make_tree("home");
    use(home_ + "/.local/state/glovebox");
  }
  void use(const std::string& state) {
    state_ = state;
    settings_.environment.insert(settings_.environment.begin(), "GLOVEBOX_STATE=" + state);
  }
  void make_local() {
    for (const char* name : {"home/.local", "home/.local/state"}) make_directory(name);
  }
  Outcome shell(const Words& options, const std::string& words) {
    return run(options, {"/bin/sh", "-c", words}, settings_);
  }
  Outcome in_home(const std::string& words) { return shell({"-w", home_ + ":rw"}, words); }
  Outcome command(const Words& words, const std::string& input = "") {
    Settings settings = settings_;
    settings.input = input;
    return glovebox(words, settings);
  }

  std::string home_, state_;
  Settings settings_;
};

TEST_P(OwnPlaces, AreMadeBeforeABoxCouldMakeThem) {
  const Outcome outcome = in_home("echo x > made; mkdir .local/state/glovebox/layers");
  EXPECT_NE(outcome.code, 0);
  EXPECT_TRUE(fs::exists(home_ + "/made")) << outcome.err;
  struct stat info{};
  ASSERT_EQ(stat(state_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);
  EXPECT_EQ(info.st_uid, caller_ids().uid);
  EXPECT_FALSE(fs::exists(state_ + "/layers")) << "made by the box";
}

TEST_P(OwnPlaces, AreCoveredInEveryKindOfTree) {
  make_local();
  make_directory("home/.local/state/glovebox");
  make_file("home/.local/state/glovebox/token", "very-s3cret");
  const std::string words = "cat " + home_ + "/old " + state_ + "/token";
  for (const Words& options : std::vector<Words>{{"--read", home_},
                                                 {"--write", home_},
                                                 {"-w", home_ + ":ro"},
                                                 {"-w", home_ + ":rw"},
                                                 {"-w", home_ + ":discard"},
                                                 {"-w", home_}}) {
    const Outcome outcome = shell(options, words);
    EXPECT_THAT(outcome, ended_with(1)) << options.back();
    EXPECT_EQ(outcome.out, read_text(home_ + "/old")) << options.back();
  }
}

TEST_P(OwnPlaces, StayWhereTheyAre) {
  ASSERT_THAT(command({"secret", "set", "token"}, "very-s3cret"), ended_with(0));
  for (const char* name : {"/.local", "/.local/state", "/.local/state/glovebox"}) {
    const std::string place = home_ + name;
    EXPECT_THAT(probe({"-w", home_ + ":rw"}, {"rename", place, place + "-moved"}, settings_),
                ended_with(EBUSY))
        << name;
  }
  in_home("mv .local l2; mkdir -p .local/state/glovebox/secrets");
  const Outcome second = in_home("cat l2/state/glovebox/secrets/* l2/glovebox/secrets/*");
  EXPECT_EQ(second.out, "");
  EXPECT_EQ(read_text(state_ + "/secrets/token"), "very-s3cret");
}

TEST_P(OwnPlaces, LeaveTheirNeighboursFree) {
  make_local();
  const Outcome outcome = in_home(
      "mkdir a .local/share && mv a b && mv .local/share .local/shared && echo x > .local/new && "
      "echo y > .local/state/new && mv .local/state/new .local/state/newer && rmdir b");
  EXPECT_THAT(outcome, ended_with(0)) << outcome.err;
  struct stat info{};
  ASSERT_EQ(stat((home_ + "/.local/state/newer").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, caller_ids().uid) << "a pinned directory has the owners of its tree";
}

TEST_P(OwnPlaces, ALayerInTheTreeThatItIsOverStillWorks) {
  const Outcome outcome = shell({"-w", home_}, "echo changed > old; ls -A .local/state/glovebox");
  EXPECT_NE(outcome.code, 0) << "its own layer is covered too";
  EXPECT_EQ(outcome.out, "");
  settings_.directory = home_;
  EXPECT_THAT(command({"commit", "last"}), ended_with(0));
  EXPECT_EQ(read_text(home_ + "/old"), "changed\n");
}

TEST_P(OwnPlaces, NothingInThemIsHandedIn) {
  make_local();
  make_directory("home/.local/state/glovebox");
  const std::string inside = make_directory("home/.local/state/glovebox/work");
  for (const Words& options : std::vector<Words>{
           {"-w", inside + ":rw"}, {"-w", inside}, {"-w", state_ + ":ro"}, {"--write", inside}}) {
    EXPECT_THAT(shell(options, "true"), refused_to_start("keeps its own state")) << options.back();
  }
  EXPECT_THAT(command({"explain", "-w", inside + ":rw", "--", "true"}), ended_with(125));
  EXPECT_THAT(in_home("true"), ended_with(0));
}

TEST_P(OwnPlaces, ALinkOnTheWayThatTheBoxCouldReplaceIsRefused) {
  const std::string real = make_directory("real");
  fs::create_directory_symlink(real, home_ + "/link");
  use(home_ + "/link/glovebox");
  EXPECT_THAT(in_home("true"), refused_to_start(home_ + "/link"));
  EXPECT_THAT(shell({"-w", home_ + ":ro"}, "true"), ended_with(0));
  EXPECT_THAT(shell({"-w", make_tree("other") + ":rw"}, "true"), ended_with(0));
}

TEST_P(OwnPlaces, ATreeWithoutThemIsPlannedWithoutThem) {
  const std::string other = make_tree("other");
  const Outcome plan = command({"explain", "-w", other + ":rw", "--", "true"});
  EXPECT_THAT(plan, ended_with(0));
  EXPECT_THAT(plan.out, testing::Not(HasSubstr(".local")));
  EXPECT_FALSE(fs::exists(state_));
  const Outcome around = command({"explain", "-w", home_ + ":rw", "--", "true"});
  EXPECT_THAT(around.out, HasSubstr("pin-directory      " + home_ + "/.local/state\n"));
  EXPECT_THAT(around.out, HasSubstr("deny read=" + state_));
}

BOX_TEST_TIERS(OwnPlaces);

}  // namespace
}  // namespace glovebox::test
