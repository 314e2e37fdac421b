#include "serve/bodies/json_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace glovebox::serve {
namespace {

using testing::HasSubstr;

TEST(ParseJson, AKeyThatComesTwiceIsRefusedByItsName) {
  for (const char* text : {R"({"a": 1, "a": 2})", R"({"b": {"a": 1, "a": 1}})",
                           R"([{"b": [{"a": 1, "\u0061": 2}]}])"}) {
    const auto parsed = parse_json(text, 16);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_THAT(parsed.error().message, HasSubstr("'a' twice"));
  }
  EXPECT_TRUE(parse_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", 16));
}

TEST(ParseJson, NestingAndSyntax) {
  EXPECT_TRUE(parse_json("[[1]]", 2));
  const auto deep = parse_json("[[[1]]]", 2);
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().message, HasSubstr("nested deeper than 2 levels"));
  for (const char* text : {"", "{", "{} {}", "{'a': 1}"}) EXPECT_FALSE(parse_json(text, 2)) << text;
}

// The words of an error are for people.
TEST(BodyRefusal, TheCodeOfTheErrorDecides) {
  const Error large{Code::Exhausted, 0, "did not come in time"};
  const Error late{Code::Os, ETIMEDOUT, "too large"};
  const Error other{Code::Invalid, 0, "in time"};
  EXPECT_EQ(body_refusal(large, "X").status, 413);
  EXPECT_EQ(body_refusal(late, "X").status, 408);
  EXPECT_EQ(body_refusal(other, "X").status, 400);
  EXPECT_EQ(body_refusal(other, "X").code, "X");
}

}  // namespace
}  // namespace glovebox::serve
