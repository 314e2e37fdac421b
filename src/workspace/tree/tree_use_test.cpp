#include "workspace/tree/tree_use.h"

#include "base/file.h"
#include "workspace/tree/tree_fs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

namespace fs = std::filesystem;

class TreeUseTest : public testing::Test {
 protected:
  TreeUseTest() {
    std::string name = "/var/tmp/glovebox-use-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no place to test in");
    place_ = name;
  }
  ~TreeUseTest() override {
    const auto above = open_file("/var/tmp", O_RDONLY | O_DIRECTORY);
    (void)remove_tree(*above, place_.filename());
  }

  UniqueFd open() const { return *open_file(place_, O_RDONLY | O_DIRECTORY); }

  // One in another, so deep that no path names the last.
  void make_chain(std::size_t depth, const std::string& name) const {
    UniqueFd dir = open();
    for (std::size_t i = 0; i < depth; ++i) {
      ASSERT_EQ(::mkdirat(dir.get(), name.c_str(), 0700), 0);
      dir = *open_directory(dir, name);
    }
    const UniqueFd file = *open_file_at(dir, "last", O_WRONLY | O_CREAT, 0600);
    ASSERT_TRUE(write_all(file, std::string(1 << 20, 'x')));
  }

  fs::path place_;
};

TEST_F(TreeUseTest, CountsWhatIsOnTheDisk) {
  fs::create_directories(place_ / "a/b");
  std::ofstream(place_ / "a/b/file") << std::string(1 << 20, 'x');
  fs::create_symlink("/usr", place_ / "a/link");
  fs::resize_file(place_ / "a/b/file", std::uintmax_t{1} << 40);
  const auto use = measure_tree(open());
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_GE(use->bytes, std::uint64_t{1} << 20);
  EXPECT_LT(use->bytes, std::uint64_t{2} << 20) << "holes take nothing, and links lead nowhere";
  EXPECT_FALSE(use->is_boundless);
}

TEST_F(TreeUseTest, TheDeepestTreeWithTheLongestNamesNeedsFewDescriptors) {
  make_chain(kDeepestTree, std::string(250, 'n'));
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto use = measure_tree(open());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_FALSE(use->is_boundless);
  EXPECT_GE(use->bytes, std::uint64_t{1} << 20) << "down to the last";
}

TEST_F(TreeUseTest, ADeeperOneIsTold) {
  make_chain(10'000, "d");
  std::ofstream(place_ / "beside") << std::string(1 << 20, 'x');
  const auto use = measure_tree(open());
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_TRUE(use->is_boundless);
  EXPECT_GE(use->bytes, std::uint64_t{1} << 20) << "the rest is counted";
}

// Root is shut out of nothing, so this takes another uid for a while.
TEST_F(TreeUseTest, WhatIsShutIsTold) {
  constexpr uid_t kOrdinary = 65533;
  const bool is_root = ::geteuid() == 0;
  fs::create_directories(place_ / "own/shut");
  fs::create_directories(place_ / "d");
  std::ofstream(place_ / "d/file") << "hidden";
  for (const char* name : {"", "own", "own/shut", "d", "d/file"}) {
    ASSERT_TRUE(!is_root || ::chown((place_ / name).c_str(), kOrdinary, kOrdinary) == 0);
  }
  fs::permissions(place_ / "own/shut", fs::perms::none);
  ASSERT_TRUE(!is_root || ::seteuid(kOrdinary) == 0);
  const auto with_mode = [&](unsigned mode) {
    fs::permissions(place_ / "d", static_cast<fs::perms>(mode));
    return measure_tree(open(), "own/shut");
  };
  const auto open_tree = with_mode(0700);
  const auto shut = with_mode(0);
  const auto listed = with_mode(0400);
  const auto entered = with_mode(0100);
  const auto unnamed = measure_tree(open());
  (void)with_mode(0700);
  fs::permissions(place_ / "own/shut", fs::perms::owner_all);
  ASSERT_TRUE(!is_root || ::seteuid(0) == 0);
  EXPECT_FALSE(open_tree->has_shut) << "one that may be shut";
  EXPECT_TRUE(shut->has_shut);
  EXPECT_TRUE(listed->has_shut);
  EXPECT_TRUE(entered->has_shut);
  EXPECT_TRUE(unnamed->has_shut);
}

}  // namespace
}  // namespace glovebox::workspace
