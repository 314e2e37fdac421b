#include "base/glob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

namespace glovebox {
namespace {

using testing::HasSubstr;

constexpr GlobSyntax kStars{.dialect = GlobDialect::Stars, .unit = GlobUnit::Character};
constexpr GlobSyntax kClasses{.dialect = GlobDialect::Classes};
constexpr GlobSyntax kSearch{.dialect = GlobDialect::Search};
constexpr GlobSyntax kRipgrep{.dialect = GlobDialect::Ripgrep};

bool matches(std::string_view pattern, std::string_view text, GlobSyntax syntax = kClasses) {
  const auto glob = GlobPattern::parse(pattern, syntax);
  EXPECT_TRUE(glob) << pattern;
  return glob && glob->matches(text);
}

std::string refusal(std::string_view pattern, GlobSyntax syntax) {
  const auto glob = GlobPattern::parse(pattern, syntax);
  return glob ? "accepted" : glob.error().message;
}

TEST(GlobPattern, StarsStayWithinAName) {
  for (const GlobSyntax& syntax : {kStars, kClasses, kSearch, kRipgrep}) {
    EXPECT_TRUE(matches("*.c", "a.c", syntax));
    EXPECT_TRUE(matches("*", "", syntax));
    EXPECT_TRUE(matches("*", ".hidden", syntax));
    EXPECT_TRUE(matches("a*c*e", "abcde", syntax));
    EXPECT_FALSE(matches("*.c", "a.c.x", syntax));
    EXPECT_FALSE(matches("*c", "a/c", syntax));
    EXPECT_FALSE(matches("a?c", "a/c", syntax));
    EXPECT_FALSE(matches("?", "", syntax));
  }
}

TEST(GlobPattern, ClassesTakeOneOfTheirs) {
  for (const GlobSyntax& syntax : {kClasses, kSearch, kRipgrep}) {
    EXPECT_TRUE(matches("[a-c]x", "bx", syntax));
    EXPECT_FALSE(matches("[!a-c]x", "bx", syntax));
    EXPECT_TRUE(matches("[!a-c]x", "dx", syntax));
    EXPECT_FALSE(matches("[!a-c]x", "/x", syntax));
    EXPECT_TRUE(matches("[]]x", "]x", syntax));
    EXPECT_TRUE(matches("[!]]x", "ax", syntax));
    EXPECT_TRUE(matches("[a-]", "-", syntax));
    EXPECT_FALSE(matches("[abc]", "", syntax));
  }
  EXPECT_TRUE(matches("[a]", "[a]", kStars));
}

// Each of these is another tool's language.
TEST(GlobPattern, DialectsDiffer) {
  EXPECT_TRUE(matches("[^a]", "^", kClasses));
  EXPECT_FALSE(matches("[^a]", "a", kSearch));
  EXPECT_TRUE(matches("[^a]", "b", kRipgrep));
  EXPECT_TRUE(matches("\\*", "\\x", kClasses));
  EXPECT_TRUE(matches("\\*", "*", kSearch));
  EXPECT_FALSE(matches("\\*", "x", kRipgrep));
  EXPECT_TRUE(matches("[a\\]]", "]", kSearch));
  EXPECT_TRUE(matches("[a\\]]", "\\]", kRipgrep));
  EXPECT_TRUE(matches("[x", "[x", kRipgrep));
  EXPECT_THAT(refusal("[x", kClasses), HasSubstr("'[' without ']'"));
  EXPECT_THAT(refusal("[x", kSearch), HasSubstr("'[' without ']'"));
  EXPECT_THAT(refusal("x\\", kSearch), HasSubstr("backslash"));
  EXPECT_THAT(refusal("x\\", kRipgrep), HasSubstr("backslash"));
  EXPECT_THAT(refusal("[z-a]", kRipgrep), HasSubstr("ends before it begins"));
  EXPECT_FALSE(matches("[z-a]", "m", kClasses));
}

TEST(GlobPattern, SearchesCrossDirectories) {
  EXPECT_TRUE(matches("a**b", "a/x/b", kSearch));
  EXPECT_FALSE(matches("a**b", "a/x/b", kRipgrep));
  EXPECT_TRUE(matches("**/x", "x", kSearch));
  EXPECT_TRUE(matches("**/x", "a/b/x", kSearch));
  EXPECT_FALSE(matches("**/x", "ax", kSearch));
  EXPECT_TRUE(matches("a/**/**/x", "a/x", kSearch));
  EXPECT_TRUE(matches("a/**", "a/b/c", kSearch));
  EXPECT_FALSE(matches("a/**", "a", kSearch));
  EXPECT_TRUE(matches("*[/a]*b", "aa/b", kSearch));  // the first star has to give way
}

TEST(GlobPattern, AUnitIsAByteOrACharacter) {
  const GlobSyntax characters{.dialect = GlobDialect::Classes, .unit = GlobUnit::Character};
  EXPECT_TRUE(matches("?", "\xc3\xbc", characters));
  EXPECT_FALSE(matches("??", "\xc3\xbc", characters));
  EXPECT_TRUE(matches("??", "\xc3\xbc", kClasses));
  EXPECT_TRUE(matches("[\xc3\xa4-\xc3\xbc]", "\xc3\xb6", characters));
  EXPECT_TRUE(matches("?", "\xf0\x9f\x98\x80", characters));
  EXPECT_TRUE(matches("?", "\xff", characters));
  EXPECT_TRUE(matches("\xff*", "\xff\xc3", characters));
  EXPECT_FALSE(matches("\xff", "\xfe", characters));
}

TEST(GlobPattern, LettersCompareEqualWhenAsked) {
  const GlobSyntax folded{.letters = GlobCase::Folded};
  EXPECT_TRUE(matches("*.TXT", "a.txt", folded));
  EXPECT_TRUE(matches("[a-c].x", "B.X", folded));
  EXPECT_TRUE(matches("[A-C]", "b", folded));
  EXPECT_FALSE(matches("[!a]", "A", folded));
  EXPECT_FALSE(matches("*.TXT", "a.txt"));
}

GlobPath::Matches match(std::string_view pattern, std::string_view path) {
  const auto glob = GlobPath::parse(split_names(pattern), kClasses);
  EXPECT_TRUE(glob) << pattern;
  return glob ? glob->match(split_names(path)) : GlobPath::Matches{};
}

TEST(GlobPath, TwoStarsAreAnyNumberOfNames) {
  EXPECT_TRUE(match("**/x", "x").whole);
  EXPECT_TRUE(match("**/x", "a/b/x").whole);
  EXPECT_TRUE(match("a/**", "a").whole);
  EXPECT_TRUE(match("a/**/**/z", "a/b/c/z").whole);
  EXPECT_FALSE(match("a/**/z", "a/b/c").whole);
  EXPECT_FALSE(match("*", "a/b").whole);
  EXPECT_TRUE(match("**", "").whole);
  EXPECT_TRUE(match("", "").whole);
  EXPECT_FALSE(match("", "a").whole);
}

TEST(GlobPath, KnowsWhetherABeginningMatches) {
  EXPECT_TRUE(match("a/*", "a/b/c").beginning);
  EXPECT_FALSE(match("a/*", "a").beginning);
  EXPECT_FALSE(match("a/*", "b/a/c").beginning);
  EXPECT_TRUE(match("**", "a").beginning);
}

// Patterns that make a matcher which goes back take longer than anyone waits.
TEST(Glob, NoPatternTakesLong) {
  const auto before = std::chrono::steady_clock::now();
  std::string stars;
  for (int i = 0; i < 200; ++i) stars += "*a";
  std::string directories;
  for (int i = 0; i < 500; ++i) directories += "**/";
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += "a/";
  for (const GlobSyntax& syntax : {kStars, kClasses, kSearch, kRipgrep}) {
    EXPECT_FALSE(matches(stars + "b", std::string(4000, 'a'), syntax));
  }
  EXPECT_FALSE(matches(directories + "b", deep + "a", kSearch));
  EXPECT_FALSE(matches(directories + "a**b", deep + "a", kSearch));
  std::string parts;
  for (int i = 0; i < 100; ++i) parts += "**/a*a*b/";
  EXPECT_FALSE(match(parts, deep).whole);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
}

// The definition, as recursion.
bool oracle(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  const bool is_any_depth = pattern.starts_with("**/");
  if (is_any_depth || pattern.starts_with("**")) {
    const std::string_view rest = pattern.substr(is_any_depth ? 3 : 2);
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const bool may_leave = !is_any_depth || i == 0 || text[i - 1] == '/';
      if (may_leave && oracle(rest, text.substr(i))) return true;
    }
    return false;
  }
  if (pattern[0] == '*') {
    return oracle(pattern.substr(1), text) ||
           (!text.empty() && text[0] != '/' && oracle(pattern, text.substr(1)));
  }
  if (text.empty()) return false;
  const bool takes = pattern[0] == '?' ? text[0] != '/' : pattern[0] == text[0];
  return takes && oracle(pattern.substr(1), text.substr(1));
}

TEST(GlobProperty, SearchesAgreeWithTheDefinition) {
  std::mt19937 random(11);
  const std::vector<std::string> parts{"**", "*", "a", "b", "?", "a*", "*b", "a*b"};
  const std::vector<std::string> words{"a", "b", "ab", "aab", "ba"};
  const auto pick = [&](const std::vector<std::string>& from) {
    std::string out = from[random() % from.size()];
    for (std::size_t i = random() % 5; i > 0; --i) out += "/" + from[random() % from.size()];
    return out;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string pattern = pick(parts);
    const std::string path = pick(words);
    ASSERT_EQ(matches(pattern, path, kSearch), oracle(pattern, path))
        << pattern << " against " << path;
  }
}

}  // namespace
}  // namespace glovebox
