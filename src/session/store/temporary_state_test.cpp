#include "session/store/temporary_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

namespace fs = std::filesystem;

class TemporaryStateTest : public testing::Test {
 protected:
  TemporaryStateTest() {
    std::string name = "/tmp/glovebox-temporary-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
  }
  ~TemporaryStateTest() override { fs::remove_all(root_); }

  std::string stem() const { return root_ / "box-"; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(root_))
      found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }
  // A process that makes a state with something in it and is killed.
  void make_and_die() const {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto state = TemporaryState::make(stem());
      if (!state) ::_exit(1);
      fs::create_directories((*state)->directory() + "/layers/one/shut");
      fs::permissions((*state)->directory() + "/layers/one", fs::perms::none);
      ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  fs::path root_;
};

TEST_F(TemporaryStateTest, GoesWithItsOwner) {
  {
    auto state = TemporaryState::make(stem());
    ASSERT_TRUE(state);
    fs::create_directories((*state)->directory() + "/layers");
    EXPECT_EQ(names().size(), 1U);
  }
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(TemporaryStateTest, OfTheDeadGoesWithTheNext) {
  make_and_die();
  ASSERT_EQ(names().size(), 1U);
  {
    ASSERT_TRUE(TemporaryState::make(stem()));
  }
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(TemporaryStateTest, OfTheLivingStays) {
  auto first = TemporaryState::make(stem());
  ASSERT_TRUE(first);
  fs::create_directories((*first)->directory());
  {
    ASSERT_TRUE(TemporaryState::make(stem()));
  }
  EXPECT_TRUE(fs::exists((*first)->directory()));
}

TEST_F(TemporaryStateTest, SomebodyElsesDirectoryStays) {
  fs::create_directory(root_ / "box-backup");
  std::ofstream(root_ / "box-backup/photo") << "mine";
  fs::create_directory(root_ / "elsewhere");
  std::ofstream(root_ / "elsewhere/remove-when-unlocked") << "";
  fs::create_directory_symlink(root_ / "elsewhere", root_ / "box-linked");
  {
    ASSERT_TRUE(TemporaryState::make(stem()));
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"box-backup", "box-linked", "elsewhere"}));
  EXPECT_TRUE(fs::exists(root_ / "box-backup/photo"));
}

TEST_F(TemporaryStateTest, AnotherUsersStays) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  make_and_die();
  ASSERT_EQ(names().size(), 1U);
  ASSERT_EQ(::chown((root_ / names().front()).c_str(), 65534, 65534), 0);
  {
    ASSERT_TRUE(TemporaryState::make(stem()));
  }
  EXPECT_EQ(names().size(), 1U);
}

}  // namespace
}  // namespace glovebox::session
