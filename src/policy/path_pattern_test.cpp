#include "policy/path_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace glovebox::policy {
namespace {

using authority::AbsolutePath;
using testing::HasSubstr;

AbsolutePath path(std::string_view text) { return *AbsolutePath::parse(text); }

bool matches(std::string_view pattern, std::string_view text) {
  const auto parsed = PathPattern::parse(pattern);
  EXPECT_TRUE(parsed) << pattern;
  return parsed && parsed->matches(path(text));
}

std::string refusal(std::string_view text) {
  const auto parsed = parse_path_or_pattern(text);
  return parsed ? "accepted" : parsed.error().message;
}

// "plain /srv" or "pattern /srv/*".
std::string read_as(std::string_view text) {
  const auto parsed = parse_path_or_pattern(text);
  if (!parsed) return parsed.error().message;
  if (const auto* plain = std::get_if<AbsolutePath>(&*parsed)) return "plain " + plain->text();
  return "pattern " + std::get<PathPattern>(*parsed).text();
}

TEST(PathPattern, StarStaysWithinAComponent) {
  EXPECT_TRUE(matches("/srv/*.csv", "/srv/a.csv"));
  EXPECT_TRUE(matches("/srv/*.csv", "/srv/.csv"));
  EXPECT_TRUE(matches("/srv/a*c*e", "/srv/abcde"));
  EXPECT_FALSE(matches("/srv/*.csv", "/srv/sub/a.csv"));
  EXPECT_FALSE(matches("/srv/*.csv", "/srv/a.csv.gz"));
  EXPECT_FALSE(matches("/srv/*", "/srv"));
  EXPECT_FALSE(matches("/srv/*", "/srvx/a"));
}

TEST(PathPattern, StarMatchesHiddenNames) { EXPECT_TRUE(matches("/home/*", "/home/.ssh")); }

TEST(PathPattern, QuestionMarkIsOneCharacterNotOneByte) {
  EXPECT_TRUE(matches("/a/?", "/a/x"));
  EXPECT_TRUE(matches("/a/?", "/a/\xc3\xbc"));
  EXPECT_TRUE(matches("/a/?", "/a/\xf0\x9f\x98\x80"));
  EXPECT_FALSE(matches("/a/?", "/a/xy"));
  EXPECT_FALSE(matches("/a/??", "/a/\xc3\xbc"));
  EXPECT_TRUE(component_matches("?", "\xff"));  // a name that is no UTF-8: byte by byte
  EXPECT_FALSE(component_matches("?", ""));
}

TEST(PathPattern, DoubleStarIsAnyNumberOfComponents) {
  EXPECT_TRUE(matches("/srv/**/*.csv", "/srv/a.csv"));
  EXPECT_TRUE(matches("/srv/**/*.csv", "/srv/x/y/z/a.csv"));
  EXPECT_TRUE(matches("/**/b", "/b"));
  EXPECT_TRUE(matches("/**/a/**/b", "/x/a/y/z/b"));
  EXPECT_FALSE(matches("/**/a/**/b", "/x/b"));
  EXPECT_FALSE(matches("/srv/**/*.csv", "/srv/a.csv/b"));
}

TEST(PathPattern, ATreeIsAPlainPath) {
  EXPECT_EQ(read_as("/srv/data/**"), "plain /srv/data");
  EXPECT_EQ(read_as("/srv//data/./"), "plain /srv/data");
  EXPECT_EQ(read_as("/**"), "plain /");
  EXPECT_EQ(read_as("/srv/**/**"), "plain /srv");
  EXPECT_EQ(read_as("/srv/*/data/**"), "pattern /srv/*/data");
  EXPECT_EQ(read_as("/srv/**/**/x"), "pattern /srv/**/x");
  EXPECT_EQ(read_as("/srv/*"), "pattern /srv/*");
}

TEST(PathPattern, FormsOfOtherToolsAreRefused) {
  EXPECT_THAT(refusal("~/data"), HasSubstr("'~' is not taken"));
  EXPECT_THAT(refusal("$HOME/data"), HasSubstr("variables are not replaced"));
  EXPECT_THAT(refusal("/srv/[ab].key"), HasSubstr("'[...]' is no wildcard"));
  EXPECT_THAT(refusal("/srv/*.{key,pem}"), HasSubstr("'{a,b}' is no wildcard"));
  EXPECT_THAT(refusal("/srv/a**"), HasSubstr("'**' must be a whole component"));
  EXPECT_THAT(refusal("/srv/***"), HasSubstr("'**' must be a whole component"));
  EXPECT_THAT(refusal("srv/*"), HasSubstr("path 'srv/*': not absolute"));
  EXPECT_THAT(refusal("/srv/*/../x"), HasSubstr("path '/srv/*/../x': '..' is not allowed"));
  EXPECT_THAT(refusal("/srv/*\n"), HasSubstr("control characters"));
  EXPECT_THAT(refusal(""), HasSubstr("not absolute"));
}

TEST(PathPattern, LengthIsBounded) {
  std::string deep;
  for (int i = 0; i < 70; ++i) deep += "/*";
  EXPECT_THAT(refusal(deep), HasSubstr("more than 63 components"));
  std::string wide(301, 'x');
  wide.front() = '/';
  wide.back() = '*';
  EXPECT_THAT(refusal(wide), HasSubstr("longer than 255"));
}

TEST(PathPattern, APathTakenByTheLetterMatchesItselfAlone) {
  const PathPattern exact = PathPattern::exactly(path("/srv/[id]"));
  EXPECT_FALSE(exact.has_wildcards());
  EXPECT_TRUE(exact.matches(path("/srv/[id]")));
  EXPECT_FALSE(exact.matches(path("/srv/i")));
  EXPECT_TRUE(exact.matches_at_or_above(path("/srv/[id]/page")));
}

TEST(PathPattern, KnowsWhetherItMatchesAbove) {
  const auto pattern = PathPattern::parse("/srv/*/x");
  ASSERT_TRUE(pattern);
  EXPECT_TRUE(pattern->matches_at_or_above(path("/srv/a/x/deep/down")));
  EXPECT_FALSE(pattern->matches_at_or_above(path("/srv/a/y/x")));
}

TEST(PathPattern, MatchingCannotBeMadeSlow) {
  std::string pattern;
  std::string text;
  for (int i = 0; i < 30; ++i) pattern += "/**/a*a*a*a*b";
  for (int i = 0; i < 200; ++i) text += "/aaaaaaaaaaaaaaaa";
  const auto parsed = PathPattern::parse(pattern);
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->matches(path(text)));  // a backtracking matcher would not come back
  EXPECT_FALSE(component_matches("*a*a*a*a*a*a*a*a*a*a*a*b", std::string(255, 'a')));
}

// The definition, as recursion.
bool oracle_component(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    return oracle_component(pattern.substr(1), name) ||
           (!name.empty() && oracle_component(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         oracle_component(pattern.substr(1), name.substr(1));
}

bool oracle(const std::vector<std::string>& pattern, std::size_t p,
            const std::vector<std::string>& names, std::size_t n) {
  if (p == pattern.size()) return n == names.size();
  if (pattern[p] == "**") {
    return oracle(pattern, p + 1, names, n) ||
           (n < names.size() && oracle(pattern, p, names, n + 1));
  }
  return n < names.size() && oracle_component(pattern[p], names[n]) &&
         oracle(pattern, p + 1, names, n + 1);
}

TEST(PathPatternProperty, AgreesWithTheDefinition) {
  std::mt19937 random(7);
  const std::vector<std::string> components{"**", "*",  "?",   "a",   "b",
                                            "a*", "*b", "a?b", "*a*", "??"};
  const std::vector<std::string> words{"a", "b", "ab", "aab", "ba", "abb"};
  const auto pick = [&](const std::vector<std::string>& from, std::size_t most) {
    std::vector<std::string> out(random() % most);
    for (std::string& each : out) each = from[random() % from.size()];
    return out;
  };
  const auto join = [](const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += "/" + part;
    return text.empty() ? std::string("/") : text;
  };
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::string> pattern = pick(components, 6);
    pattern.emplace_back("a*");  // so that no "**" at the end is dropped
    const std::vector<std::string> names = pick(words, 6);
    ASSERT_EQ(matches(join(pattern), join(names)), oracle(pattern, 0, names, 0))
        << join(pattern) << " against " << join(names);
  }
}

}  // namespace
}  // namespace glovebox::policy
