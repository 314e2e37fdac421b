#include "authority/paths.h"

#include <gtest/gtest.h>

namespace glovebox::authority {
namespace {

std::string normal(std::string_view text) {
  const auto path = AbsolutePath::parse(text);
  return path ? path->text() : "refused: " + path.error().message;
}

AbsolutePath path(std::string_view text) { return *AbsolutePath::parse(text); }

TEST(AbsolutePath, HasOneSpelling) {
  EXPECT_EQ(normal("/"), "/");
  EXPECT_EQ(normal("//"), "/");
  EXPECT_EQ(normal("/a/b"), "/a/b");
  EXPECT_EQ(normal("/a//b/"), "/a/b");
  EXPECT_EQ(normal("/./a/./b/."), "/a/b");
  EXPECT_EQ(normal("/a/...b/..c"), "/a/...b/..c");
  EXPECT_EQ(normal("/räksmörgås/[slug] x"), "/räksmörgås/[slug] x");
}

TEST(AbsolutePath, RefusesWhatItCannotBeSureOf) {
  for (const std::string_view text :
       {std::string_view(""), std::string_view("a"), std::string_view("./a"),
        std::string_view("~/a"), std::string_view("/a/.."), std::string_view("/../a"),
        std::string_view("/a/../b"), std::string_view("/a\0b", 4), std::string_view("/a\nb"),
        std::string_view("/a\x7f"), std::string_view("/a\xff"), std::string_view("/a\xc0\xaf"),
        std::string_view("/a\xed\xa0\x80"), std::string_view("/a\xe2\x82"),
        std::string_view("/a/*"), std::string_view("/a/**"), std::string_view("/a?")}) {
    EXPECT_FALSE(AbsolutePath::parse(text)) << text;
  }
}

TEST(AbsolutePath, BoundsItsLength) {
  EXPECT_TRUE(AbsolutePath::parse("/" + std::string(255, 'a')));
  EXPECT_FALSE(AbsolutePath::parse("/" + std::string(256, 'a')));
  std::string deep;
  while (deep.size() < 4096) deep += "/abcdefghijklmnop";
  EXPECT_FALSE(AbsolutePath::parse(deep));
  EXPECT_TRUE(AbsolutePath::parse(deep.substr(0, 4095)));
}

TEST(AbsolutePath, MessagesStayOnOneLine) {
  const auto refused = AbsolutePath::parse("/a\x1b[2J\n");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "path '/a\\x1b[2J\\x0a': must be UTF-8 without control characters");
}

TEST(AbsolutePath, ContainsByComponent) {
  EXPECT_TRUE(path("/a").contains(path("/a")));
  EXPECT_TRUE(path("/a").contains(path("/a/b/c")));
  EXPECT_TRUE(path("/").contains(path("/a")));
  EXPECT_TRUE(path("/").contains(path("/")));
  EXPECT_FALSE(path("/a").contains(path("/ab")));
  EXPECT_FALSE(path("/a/b").contains(path("/a")));
  EXPECT_FALSE(path("/a").contains(path("/")));
}

}  // namespace
}  // namespace glovebox::authority
