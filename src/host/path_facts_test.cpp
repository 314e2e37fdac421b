#include "host/path_facts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace glovebox::host {
namespace {

TEST(PathFacts, LinksAreResolvedOnce) {
  char name[] = "/tmp/glovebox-paths-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::filesystem::path dir(name);
  std::ofstream(dir / "file") << "x";
  std::filesystem::create_symlink("file", dir / "link");

  const auto file = look_up((dir / "file").string());
  const auto link = look_up((dir / "link").string());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->kind, PathKind::File);
  EXPECT_EQ(*file, *link);
  EXPECT_EQ(look_up((dir / "missing").string()).error().code, Code::NotFound);
  std::filesystem::remove_all(dir);
}

TEST(PathFacts, RelativePathsNeedAPersonsShell) {
  EXPECT_EQ(look_up("usr").error().code, Code::Invalid);
  EXPECT_EQ(look_up_from_here(".")->path, std::filesystem::current_path());
  EXPECT_FALSE(look_up_from_here(""));
}

TEST(PathFacts, WithinGoesByComponent) {
  EXPECT_TRUE(is_within("/a/b", "/a"));
  EXPECT_TRUE(is_within("/a", "/a"));
  EXPECT_TRUE(is_within("/a", "/"));
  EXPECT_FALSE(is_within("/ab", "/a"));
  EXPECT_FALSE(is_within("/", "/a"));
  EXPECT_EQ(components("/a//b/"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(components("/").empty());
}

}  // namespace
}  // namespace glovebox::host
