#include "base/utf8.h"

#include <gtest/gtest.h>

namespace glovebox {
namespace {

TEST(Utf8, WhatIsValidStays) {
  for (const std::string text :
       {"", "plain", "h\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80 end"}) {
    EXPECT_EQ(to_valid_utf8(text), text);
  }
}

TEST(Utf8, EveryBadByteIsReplacedAndNothingElse) {
  const std::string bad(kReplacement);
  EXPECT_EQ(to_valid_utf8("a\xFF"
                          "b"),
            "a" + bad + "b");
  EXPECT_EQ(to_valid_utf8("\xFF\xFE"), bad + bad);
  EXPECT_EQ(to_valid_utf8("{\"\xC3\"}"), "{\"" + bad + "\"}") << "a cut character eats no quote";
  EXPECT_EQ(to_valid_utf8("\xE2\x82"), bad + bad);
  EXPECT_EQ(to_valid_utf8("\xC0\xAF"), bad + bad) << "too long a form";
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), bad + bad + bad) << "half of a pair";
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), bad + bad + bad + bad) << "beyond the last one";
}

}  // namespace
}  // namespace glovebox
