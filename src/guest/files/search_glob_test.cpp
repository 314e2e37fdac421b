#include "guest/files/search_glob.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace glovebox::guest {
namespace {

struct Case {
  const char* pattern;
  const char* path;
  bool matches;
};

TEST(Glob, Cases) {
  const Case cases[] = {
      {"*.txt", "a.txt", true},
      {"*.txt", "deep/er/a.txt", true},  // no slash: the last component
      {"*.txt", "a.txt/b", false},
      {"a*", "b/ab", true},
      {"src/*.cpp", "src/a.cpp", true},
      {"src/*.cpp", "src/b/a.cpp", false},
      {"src/**/*.cpp", "src/a.cpp", true},
      {"src/**/*.cpp", "src/b/c/a.cpp", true},
      {"**/a.cpp", "a.cpp", true},
      {"**/a.cpp", "x/y/a.cpp", true},
      {"**/a.cpp", "xa.cpp", false},
      {"**", "any/thing", true},
      {"src/**", "src/a/b", true},
      {"src/**", "srcs/a", false},
      {"a**b", "a/x/b", true},
      {"?", "x", true},
      {"a?b", "a/b", false},
      {"[a-c]x", "bx", true},
      {"[!a-c]x", "bx", false},
      {"[!a-c]x", "dx", true},
      {"[]]", "]", true},
      {"[a\\]]", "]", true},
      {"\\*", "*", true},
      {"\\*", "x", false},
      {"", "x", false},
      {"./a/b", "a/b", true},
      {"**/**/x", "x", true},
      {"*", "", true},
  };
  for (const Case& one : cases) {
    const auto glob = Glob::parse(one.pattern, Glob::Case::Sensitive);
    ASSERT_TRUE(glob) << one.pattern;
    EXPECT_EQ(glob->matches(one.path), one.matches) << one.pattern << " on " << one.path;
  }
}

TEST(Glob, CaseIsIgnoredWhenAsked) {
  EXPECT_TRUE(Glob::parse("*.TXT", Glob::Case::Ignored)->matches("a.txt"));
  EXPECT_TRUE(Glob::parse("[a-c].x", Glob::Case::Ignored)->matches("B.X"));
  EXPECT_FALSE(Glob::parse("*.TXT", Glob::Case::Sensitive)->matches("a.txt"));
}

TEST(Glob, MalformedPatternsAreRefused) {
  EXPECT_FALSE(Glob::parse("[a", Glob::Case::Sensitive));
  EXPECT_FALSE(Glob::parse("[", Glob::Case::Sensitive));
  EXPECT_FALSE(Glob::parse("a\\", Glob::Case::Sensitive));
}

TEST(Glob, NoPatternTakesLong) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  const std::string path(4000, 'a');
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(Glob::parse(pattern + "b", Glob::Case::Sensitive)->matches(path));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
}

}  // namespace
}  // namespace glovebox::guest
