#include "base/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace glovebox {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view text, JsonBounds bounds = {}) {
  const auto value = parse_strict_json(text, bounds);
  return value ? "accepted" : value.error().message;
}

TEST(StrictJson, ADoubledKeyIsRefusedAtEveryDepth) {
  EXPECT_THAT(refusal(R"({"a": 1, "a": 2})"), HasSubstr("the key 'a' twice"));
  EXPECT_THAT(refusal(R"([{"b": {"a": 1, "c": 2, "a": 1}}])"), HasSubstr("the key 'a' twice"));
  EXPECT_THAT(refusal(R"({"a": 1, "\u0061": 2})"), HasSubstr("the key 'a' twice"));
  EXPECT_EQ(refusal(R"([{"a": 1}, {"a": {"a": 2}}])"), "accepted");
}

TEST(StrictJson, LengthAndDepthAreBounded) {
  EXPECT_THAT(refusal("[1, 2]", {.max_bytes = 5}), HasSubstr("6 bytes, at most 5"));
  EXPECT_THAT(refusal("[[[]]]", {.max_depth = 2}), HasSubstr("deeper than 2 levels"));
  EXPECT_EQ(refusal("[[]]", {.max_depth = 2}), "accepted");
  EXPECT_THAT(refusal(std::string(100'000, '['), kAnyLength), HasSubstr("deeper than 32 levels"));
}

TEST(StrictJson, OneWholeValueIsRead) {
  for (const char* text : {"", "{", "{} {}", "{,}", "[1,]", "// a\n1", "nul", "\"\xff\""}) {
    EXPECT_THAT(refusal(text), HasSubstr("JSON: ")) << text;
  }
}

TEST(StrictJson, SettingsOfEditorsMayHaveComments) {
  const JsonBounds bounds{.form = JsonForm::WithComments};
  EXPECT_EQ(refusal("// mine\n{\"a\": [1, /* two */ 2,],}", bounds), "accepted");
  EXPECT_THAT(refusal("{\"a\": 1, /* again */ \"a\": 2}", bounds), HasSubstr("twice"));
}

TEST(JsonFields, WhatIsNotAskedForIsRefused) {
  const boost::json::value value = *parse_strict_json(R"({"name": "x", "size": 3, "more": 1})");
  JsonFields fields = *JsonFields::of(value, "a thing");
  EXPECT_EQ(fields.text("name").value(), "x");
  EXPECT_EQ(fields.integer("size").value(), 3U);
  EXPECT_EQ(fields.text("size").error().message, "a thing: 'size' must be a string");
  EXPECT_EQ(fields.array("gone").error().message, "a thing: 'gone' is missing");
  EXPECT_EQ(fields.finish().error().message, "a thing: unknown field 'more'");
  EXPECT_EQ(fields.boolean("more").error().message, "a thing: 'more' must be a boolean");
  EXPECT_TRUE(fields.finish());
}

}  // namespace
}  // namespace glovebox
