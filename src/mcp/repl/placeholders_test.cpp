#include "mcp/repl/placeholders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <sys/stat.h>

namespace glovebox::mcp {
namespace {

namespace fs = std::filesystem;

class PlaceholdersTest : public testing::Test {
 protected:
  PlaceholdersTest() {
    std::string name = "/tmp/glovebox-placeholders-XXXXXX";
    place_ = ::mkdtemp(name.data());
  }
  ~PlaceholdersTest() override {
    ::chmod((place_ / "mine").c_str(), 0700);
    fs::remove_all(place_);
  }

  fs::path place_;
};

TEST_F(PlaceholdersTest, AreKnownByTheirModeAndGoWithTheirHolder) {
  const std::string path = place_ / ".aws";
  {
    const auto made = Placeholders::make({path});
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_TRUE(is_placeholder(path));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(is_placeholder(path));
}

// Otherwise what is in it would be left out of what a profile denies.
TEST_F(PlaceholdersTest, ADirectoryWithSomethingInItIsNone) {
  const fs::path path = place_ / "mine";
  fs::create_directory(path);
  ::chmod(path.c_str(), 01555);
  EXPECT_TRUE(is_placeholder(path));
  ::chmod(path.c_str(), 0700);
  std::ofstream(path / "secret") << "secret";
  ::chmod(path.c_str(), 01555);
  EXPECT_FALSE(is_placeholder(path));
}

}  // namespace
}  // namespace glovebox::mcp
