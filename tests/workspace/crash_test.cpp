// A commit or an undo that is killed at any moment ends, after a recovery, whole or not at all.
#include "workspace/fixture.h"

#include <csignal>
#include <random>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

class Crash : public WorkspaceTest {
 protected:
  void SetUp() override {
    WorkspaceTest::SetUp();
    for (const char* dir : {"d", "gone", "gone/sub", "hidden"})
      fs::create_directory(origin() / dir);
    for (const char* file : {"m1", "m2", "d/m3", "x", "gone/a", "gone/sub/b", "hidden/h", "swap"}) {
      write_file(origin() / file, fmt::format("old {}\n", file));
    }
    before_ = read_tree_with_times(origin());
    begin();
    fill_upper();
  }

  // As the kernel would leave it; merged directories have no mark of their own.
  void fill_upper() {
    for (const char* dir : {"d", "new", "new/sub", "hidden", "swap"}) {
      fs::create_directory(upper() / dir);
    }
    for (const char* file : {"m1", "m2", "d/m3", "new/f", "new/sub/g", "hidden/k", "swap/s"}) {
      write_file(upper() / file, fmt::format("fresh {}\n", file));
    }
    make_whiteout(upper() / "x");
    make_whiteout(upper() / "gone");
    set_user_xattr(upper() / "hidden", "user.overlay.opaque", "y");
    ::chmod((upper() / "d").c_str(), 0700);
    fs::create_symlink("m1", upper() / "link");
  }

  // Runs `act` in a child that is killed at the moment with this number. True if it lived to end.
  bool run_until(int moment, const std::function<void(const Observer&)>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
      int count = 0;
      act([&](std::string_view) {
        if (++count == moment) ::kill(::getpid(), SIGKILL);
      });
      std::_Exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "the commit was refused";
    return WIFEXITED(status);
  }

  void do_commit(const Observer& observer) {
    const auto original = layer().open_original();
    CommitOptions options;
    options.observer = observer;
    const auto result = commit(layer(), *original, options);
    if (!result || result->is_refused()) std::_Exit(3);
  }

  // As another process would: the layer is read from the disk again.
  void recover_all() {
    auto again = open_layer(root(), layer().facts().id);
    ASSERT_TRUE(again) << again.error().message;
    layer() = *std::move(again);
    const auto original = layer().open_original();
    const auto recovered = recover(layer(), *original);
    ASSERT_TRUE(recovered) << recovered.error().message;
    ASSERT_FALSE(has_unfinished_commit(layer()).value());
  }

  Tree before_;
};

Tree without_times(Tree tree) {
  for (auto& [name, what] : tree) what = what.substr(0, what.rfind(" @"));
  return tree;
}

TEST_F(Crash, CommitKilledAtEveryMomentIsWholeOrNothing) {
  // The whole commit once, elsewhere, to know what "after" is.
  const Tree old_tree = without_times(before_);
  Tree after;
  int whole = 0;
  int nothing = 0;
  for (int moment = 1;; ++moment) {
    const bool ended = run_until(moment, [&](const Observer& observer) { do_commit(observer); });
    recover_all();
    const Tree now = read_tree(origin());
    const bool is_before = now == old_tree;
    if (after.empty() && !is_before) after = now;
    ASSERT_TRUE(is_before || now == after) << "moment " << moment;
    (is_before ? nothing : whole) += 1;
    if (ended) {
      EXPECT_EQ(now, after);
      break;
    }
    if (!is_before) {  // back, for the next moment
      ASSERT_TRUE(undo_last().conflicts.empty()) << "moment " << moment;
      ASSERT_EQ(read_tree_with_times(origin()), before_) << "moment " << moment;
    }
  }
  EXPECT_EQ(after.at("m1"), "file 0644 fresh m1\n");
  EXPECT_EQ(after.at("swap/s"), "file 0644 fresh swap/s\n");
  EXPECT_EQ(after.count("gone"), 0U);
  EXPECT_EQ(after.count("hidden/h"), 0U);
  EXPECT_GT(nothing, 3);
  EXPECT_GT(whole, 15);
}

TEST_F(Crash, UndoKilledAtEveryMomentIsWholeOrNothing) {
  ASSERT_FALSE(commit_all().is_refused());
  const Tree committed = read_tree(origin());
  const auto undo_in = [&](const Observer& observer) {
    const auto original = layer().open_original();
    const auto result = undo(layer(), *original, observer);
    if (!result || !result->conflicts.empty()) std::_Exit(3);
  };
  int undone = 0;
  for (int moment = 1;; ++moment) {
    const bool ended = run_until(moment, undo_in);
    recover_all();
    const Tree now = read_tree(origin());
    const bool is_undone = now == without_times(before_);
    ASSERT_TRUE(is_undone || now == committed) << "moment " << moment;
    if (ended || is_undone) {
      EXPECT_TRUE(is_undone);
      EXPECT_EQ(read_tree_with_times(origin()), before_);
      ++undone;
      break;
    }
  }
  EXPECT_EQ(undone, 1);
}

TEST_F(Crash, CommitKilledAtRandomTimes) {
  std::mt19937 random(11);
  Tree after;
  for (int round = 0; round < 60; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      do_commit({});
      std::_Exit(0);
    }
    ::usleep(static_cast<useconds_t>(random() % 6000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    recover_all();
    const Tree now = read_tree(origin());
    if (now == without_times(before_)) continue;
    if (after.empty()) after = now;
    ASSERT_EQ(now, after) << "round " << round;
    ASSERT_TRUE(undo_last().conflicts.empty());
    ASSERT_EQ(read_tree_with_times(origin()), before_);
  }
}

// A step that cannot be done takes all others back: another process made the name while we staged.
TEST_F(Crash, AFailingStepTakesTheOthersBack) {
  const auto original = layer().open_original();
  CommitOptions options;
  options.observer = [&](std::string_view moment) {
    if (moment == "decided") write_file(origin() / "new", "mine");
  };
  const auto result = commit(layer(), *original, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::Denied);
  Tree expected = without_times(before_);
  expected["new"] = "file 0644 mine";
  EXPECT_EQ(read_tree(origin()), expected);
  EXPECT_FALSE(has_unfinished_commit(layer()).value());
}

// The owner saves a file between the decision and its step: the save is not lost.
TEST_F(Crash, ASaveDuringTheCommitIsNotOverwritten) {
  const auto original = layer().open_original();
  CommitOptions options;
  options.observer = [&](std::string_view moment) {
    if (moment != "decided") return;
    write_file(origin() / "m2~", "saved");
    fs::rename(origin() / "m2~", origin() / "m2");
  };
  ASSERT_FALSE(commit(layer(), *original, options));
  Tree expected = without_times(before_);
  expected["m2"] = "file 0644 saved";
  EXPECT_EQ(read_tree(origin()), expected);
}

}  // namespace
}  // namespace glovebox::workspace::test
