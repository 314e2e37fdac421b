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

class NewPath : public ::testing::Test {
 protected:
  NewPath() {
    char name[] = "/tmp/glovebox-paths-XXXXXX";
    root_ = ::mkdtemp(name);
    std::filesystem::create_directory(root_ + "/real");
    std::filesystem::create_symlink(root_ + "/real", root_ + "/link");
    std::filesystem::create_symlink("/nowhere", root_ + "/dangling");
  }
  ~NewPath() override { std::filesystem::remove_all(root_); }
  std::string root_;
};

TEST_F(NewPath, IsResolvedAsFarAsItExists) {
  EXPECT_EQ(resolve_new_path(root_ + "/link/new/deep").value_or(""), root_ + "/real/new/deep");
  EXPECT_EQ(resolve_new_path(root_ + "/link/../real").value_or(""), root_ + "/real");
  EXPECT_EQ(resolve_new_path("/").value_or(""), "/");
}

TEST_F(NewPath, IsRefusedWhereNobodyKnowsWhereItLeads) {
  for (const std::string& path :
       {root_ + "/new/../real", root_ + "/dangling", root_ + "/dangling/x", std::string("new")}) {
    EXPECT_FALSE(resolve_new_path(path)) << path;
  }
}

}  // namespace
}  // namespace glovebox::host
