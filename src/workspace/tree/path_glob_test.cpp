#include "workspace/tree/path_glob.h"

#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

bool matches(std::string_view pattern, std::string_view path, Case letters = Case::Exact) {
  return Glob::parse(pattern, letters).value().matches(path);
}

TEST(Glob, MatchesWholePathsByName) {
  EXPECT_TRUE(matches("src/*.c", "src/a.c"));
  EXPECT_FALSE(matches("src/*.c", "src/x/a.c"));
  EXPECT_FALSE(matches("*.c", "src/a.c"));
  EXPECT_TRUE(matches("a?c", "abc"));
  EXPECT_FALSE(matches("a?c", "a/c"));
  EXPECT_TRUE(matches("*", "x"));
  EXPECT_FALSE(matches("*", "x/y"));
  EXPECT_TRUE(matches("*.git", ".git"));
}

TEST(Glob, TwoStarsSpanAnyNumberOfNames) {
  EXPECT_TRUE(matches("**/x", "x"));
  EXPECT_TRUE(matches("**/x", "a/b/x"));
  EXPECT_TRUE(matches("a/**", "a/b"));
  EXPECT_TRUE(matches("a/**", "a"));
  EXPECT_TRUE(matches("a/**/z", "a/z"));
  EXPECT_TRUE(matches("a/**/z", "a/b/c/z"));
  EXPECT_FALSE(matches("a/**/z", "a/b/c"));
  EXPECT_TRUE(matches("**", "any/thing"));
}

TEST(Glob, ClassesAndCase) {
  EXPECT_TRUE(matches("[a-c]x", "bx"));
  EXPECT_FALSE(matches("[!a-c]x", "bx"));
  EXPECT_TRUE(matches("[]]x", "]x"));
  EXPECT_FALSE(matches("README", "readme"));
  EXPECT_TRUE(matches("**/.git/HOOKS/*", "a/.GIT/hooks/x", Case::Folded));
}

TEST(Glob, SelectsWhatIsBelowAndBareNamesAnywhere) {
  const auto selects = [](std::string_view pattern, std::string_view path) {
    return Glob::parse(pattern).value().selects(path);
  };
  EXPECT_TRUE(selects("src", "src/deep/a.c"));
  EXPECT_TRUE(selects("*.c", "src/deep/a.c"));
  EXPECT_TRUE(selects("src/deep", "src/deep/a.c"));
  EXPECT_TRUE(selects("src/", "src/a.c"));
  EXPECT_FALSE(selects("src/deep", "other/src/deep/a.c"));
  EXPECT_FALSE(selects("src/*.h", "src/a.c"));
}

TEST(Glob, RefusesPatternsThatCannotMatch) {
  for (const char* pattern : {"", "a//b", "../x", "a/./b", "[a", "/abs"}) {
    EXPECT_FALSE(Glob::parse(pattern)) << pattern;
  }
}

// A pattern and a name that make naive backtracking take 2^30 steps.
TEST(Glob, HostileInputTakesNoTime) {
  const std::string name(2000, 'a');
  EXPECT_FALSE(matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", name));
  std::string path = "a";
  for (int i = 0; i < 500; ++i) path += "/a";
  EXPECT_FALSE(matches("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", path));
}

}  // namespace
}  // namespace glovebox::workspace
