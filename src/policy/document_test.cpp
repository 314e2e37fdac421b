#include "policy/document.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace glovebox::policy {
namespace {

using testing::HasSubstr;

DocumentNode read(std::string_view text) {
  auto node = read_document(text, "x.yaml");
  if (!node) ADD_FAILURE() << to_text(node.error());
  return node ? *std::move(node) : DocumentNode();
}

std::string refusal(std::string_view text) {
  const auto node = read_document(text, "x.yaml");
  return node ? "accepted" : to_text(node.error());
}

// The tree on one line: scalars as they are, text in quotes.
std::string shape(const DocumentNode& node) {
  switch (node.kind) {
    case NodeKind::Null: return "null";
    case NodeKind::Scalar: return node.is_text() ? "'" + node.text + "'" : node.text;
    case NodeKind::Sequence:
    case NodeKind::Mapping: break;
  }
  std::string out;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    out += out.empty() ? "" : ", ";
    if (node.kind == NodeKind::Mapping) out += node.keys[i].text + ": ";
    out += shape(node.items[i]);
  }
  return node.kind == NodeKind::Mapping ? "{" + out + "}" : "[" + out + "]";
}

TEST(Document, YamlAndJsonGiveTheSameTree) {
  const std::string expected = "{a: ['x', 1, null], b: {c: 'y', d: true}}";
  EXPECT_EQ(shape(read("a: [x, 1, null]\nb:\n  c: \"y\"\n  d: true\n")), expected);
  EXPECT_EQ(shape(read(R"({"a":["x",1,null],"b":{"c":"y","d":true}})")), expected);
  EXPECT_EQ(shape(read("{\n\t\"a\": [\"x\", 1, null],\n\t\"b\": {\"c\": \"y\", \"d\": true}\n}\n")),
            expected);
}

TEST(Document, TextIsWhatYaml12CallsText) {
  EXPECT_EQ(shape(read("[yes, no, on, off, 10.0.0.1, '1', \"true\", 1:30, 1_000]")),
            "['yes', 'no', 'on', 'off', '10.0.0.1', '1', 'true', '1:30', '1_000']");
  EXPECT_EQ(shape(read("[1, -1, 0x1f, 0o17, 1.5, 1e3, .5, .inf, True, ~]")),
            "[1, -1, 0x1f, 0o17, 1.5, 1e3, .5, .inf, True, null]");
}

TEST(Document, NodesKnowTheirLineAndColumn) {
  const DocumentNode root = read("a: 1\nbb:\n  - c\n  -   d: e\n");
  EXPECT_EQ(root.keys[1].line, 2U);
  EXPECT_EQ(root.keys[1].column, 1U);
  EXPECT_EQ(root.items[1].items[0].line, 3U);
  EXPECT_EQ(root.items[1].items[0].column, 5U);
  EXPECT_EQ(root.items[1].items[1].keys[0].column, 7U);
  EXPECT_EQ(root.items[1].items[1].items[0].line, 4U);
  EXPECT_EQ(root.items[1].items[1].items[0].column, 10U);
}

TEST(Document, JsonEscapesAreRead) {
  EXPECT_EQ(read(R"({"a":"\u0041\/\"\\\n\t"})").items[0].text, "A/\"\\\n\t");
  EXPECT_EQ(read("{\"a\":\"\xc3\xbc\"}").items[0].text, "\xc3\xbc");
}

TEST(Document, AKeyGivenTwiceIsRefused) {
  EXPECT_EQ(
      refusal("a: 1\nb: 2\n\"a\": 3\n"),
      "x.yaml:3:1: the key 'a' is given twice; readers differ on which one counts; keep one\n");
  EXPECT_THAT(refusal(R"({"a":{"b":1,"b":1}})"),
              HasSubstr("x.yaml:1:13: the key 'b' is given twice"));
  EXPECT_EQ(shape(read("a: {x: 1}\nb: {x: 1}")), "{a: {x: 1}, b: {x: 1}}");
}

TEST(Document, KeysMustBeText) {
  EXPECT_THAT(refusal("[a]: 1"), HasSubstr("x.yaml:1:1: a key that is no text"));
  EXPECT_THAT(refusal("{a: b}: 1"), HasSubstr("a key that is no text"));
  EXPECT_THAT(refusal("~: 1"), HasSubstr("a key that is no text"));
  EXPECT_THAT(refusal("? \n: 1"), HasSubstr("a key that is no text"));
  EXPECT_THAT(refusal("a: &k [x]\n*k : 1"), HasSubstr("a key that is no text"));
}

TEST(Document, MergeKeysAreRefused) {
  EXPECT_THAT(refusal("a: &x {b: 1}\nc:\n  <<: *x\n"),
              HasSubstr("x.yaml:3:3: a merge key; name the other sandbox with 'extends'"));
  EXPECT_EQ(shape(read("\"<<\": 1")), "{<<: 1}");
}

TEST(Document, TagsAreRefused) {
  EXPECT_THAT(refusal("a: !!str 1"), HasSubstr("x.yaml:1:4: the tag 'tag:yaml.org,2002:str'"));
  EXPECT_THAT(refusal("a: !python/object:os.system [x]"), HasSubstr("the tag"));
  EXPECT_THAT(refusal("!!map {a: b}"), HasSubstr("the tag"));
}

TEST(Document, OneFileIsOneDocument) {
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("a second document"));
  EXPECT_EQ(refusal(""), "x.yaml: the document is empty\n");
  EXPECT_EQ(refusal("# only a comment\n"), "x.yaml: the document is empty\n");
  EXPECT_EQ(shape(read("---\na: 1\n...\n")), "{a: 1}");
}

TEST(Document, ControlCharactersAreRefusedBeforeParsing) {
  EXPECT_THAT(refusal(std::string("a: b\0c", 6)),
              HasSubstr("x.yaml:1:5: the control character \\x00"));
  EXPECT_THAT(refusal("a: 1\nb: 2\x04 c: 3"), HasSubstr("x.yaml:2:5: the control character \\x04"));
  EXPECT_THAT(refusal("a: 1\rb: 2"), HasSubstr("\\x0d"));
  EXPECT_THAT(refusal("a: \x7f"), HasSubstr("\\x7f"));
  EXPECT_EQ(shape(read("a: 1\r\nb: 2\r\n")), "{a: 1, b: 2}");
}

TEST(Document, TextMustBeUtf8) {
  EXPECT_THAT(refusal("a: \xff\xfe"), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal("a: \xc0\xaf"), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal(R"({"a": "\ud83d\ude00"})"), HasSubstr("not YAML"));
}

TEST(Document, AliasesAreCopies) {
  EXPECT_EQ(shape(read("a: &x [1, {b: 2}]\nc: *x\nd: [*x]\n")),
            "{a: [1, {b: 2}], c: [1, {b: 2}], d: [[1, {b: 2}]]}");
  EXPECT_THAT(refusal("a: &x [1, *x]"), HasSubstr("an alias to what it is itself part of"));
  EXPECT_THAT(refusal("a: *nowhere"), HasSubstr("not YAML"));
}

TEST(Document, AliasesCannotUnfoldWithoutBound) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format("a{0}: &a{0} [*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1},*a{1}]\n", i,
                        i - 1);
  }
  EXPECT_THAT(refusal(bomb), HasSubstr("more than 100000 nodes"));
}

TEST(Document, NestedAnchorsCannotMultiplyMemory) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += fmt::format("&a{} [", i);
  for (int i = 0; i < 5000; ++i) text += "x,";
  text += std::string(50, ']');
  EXPECT_THAT(refusal(text), HasSubstr("more than 100000 nodes"));
}

TEST(Document, DepthIsBounded) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(read(nested(kMaxDocumentDepth)).kind, NodeKind::Sequence);
  EXPECT_THAT(refusal(nested(kMaxDocumentDepth + 1)), HasSubstr("nested deeper than 64 levels"));
  EXPECT_NE(refusal(std::string(kMaxDocumentBytes, '[')), "accepted");
  EXPECT_NE(refusal(std::string(kMaxDocumentBytes, '{')), "accepted");
  std::string by_alias =
      "a: &x " + nested(40) + "\nb: " + std::string(40, '[') + "*x" + std::string(40, ']');
  EXPECT_THAT(refusal(by_alias), HasSubstr("nested deeper"));
}

TEST(Document, SizeIsBounded) {
  EXPECT_EQ(refusal(std::string(kMaxDocumentBytes + 1, ' ')),
            "x.yaml: larger than 1048576 bytes\n");
}

TEST(Document, BadSyntaxHasItsPlace) {
  EXPECT_THAT(refusal("a: [1, 2\nb: 3\n"), HasSubstr("x.yaml:2:"));
  for (const std::string_view end : {"", "\n", "\n\n", "\n  \t\n", "\r\n"}) {
    EXPECT_THAT(refusal("a: \"open" + std::string(end)), HasSubstr("not YAML"));
    EXPECT_THAT(refusal("a: 'open" + std::string(end)), HasSubstr("not YAML"));
  }
}

}  // namespace
}  // namespace glovebox::policy
