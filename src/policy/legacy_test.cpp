// PyIsolate's documents: what its compiler accepts means the same here, but for what is listed in
// docs/reference/policy.md.
#include "authority/authority_set.h"
#include "policy/compile.h"
#include "policy/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace glovebox::policy {
namespace {

using testing::HasSubstr;

std::string rules(std::string_view text, std::string_view name = "") {
  const auto file = compile(text, "x.yaml");
  if (!file) return to_text(file.error());
  const CompiledPolicy* found = file->find(name);
  return found == nullptr ? "no such sandbox" : to_text(found->policy);
}

TEST(LegacyDocument, InheritanceAddsDefaultsParentAndOwn) {
  const std::string text = R"(
version: 1.0
defaults:
  imports: [math]
sandboxes:
  base:
    fs:
      - allow: "/srv/data/**/*.csv"
      - deny:  "/srv/data/private/**"
    net:
      - connect: ["127.0.0.1:6379"]
  myguest:
    extends: base
    imports: [json]
)";
  EXPECT_EQ(rules(text, "myguest"),
            "deny read=/srv/data/private\n"
            "deny exec=/srv/data/private\n"
            "deny unix=/srv/data/private\n"
            "allow connect=127.0.0.1:6379\n"
            "allow import=json\n"
            "allow import=math\n"
            "allow write=/srv/data/**/*.csv\n");
}

TEST(LegacyDocument, ReadingAndWritingAreGrantedApart) {
  EXPECT_EQ(rules(R"(
version: 1.0
sandboxes:
  job:
    fs:
      - read: "/tmp/input"
      - write: "/tmp/output"
    net:
      - connect: "api.example.com:443"
    imports: [math]
    cpu_ms: 50
)",
                  "job"),
            "allow read=/tmp/input\nallow write=/tmp/output\nallow connect=api.example.com:443\n"
            "allow import=math\ncpu=50ms\n");
}

TEST(LegacyDocument, AFlatTemplate) {
  EXPECT_EQ(
      rules(R"(
version: 1.0
imports:
  - math
  - json
  - statistics
  - pathlib
fs:
  - allow: "/tmp"
  - allow: "/srv/models"
  - allow: "/srv/data"
net: []
)"),
      "allow write=/srv/data\nallow write=/srv/models\nallow write=/tmp\n"
      "allow import=json\nallow import=math\nallow import=pathlib\nallow import=statistics\n");
}

TEST(LegacyDocument, VersionIsOptionalAndHasThreeSpellings) {
  for (const std::string_view version :
       {"", "version: 0.1\n", "version: 1\n", "version: \"1.0\"\n"}) {
    EXPECT_EQ(rules(std::string(version) + "imports: [math]\n"), "allow import=math\n") << version;
  }
}

TEST(LegacyDocument, TcpIsAnotherNameForNet) {
  EXPECT_EQ(rules("tcp: [{connect: \"10.0.0.1:80\"}, {deny: [\"10.0.0.1:81\", \"10.0.0.2:80\"]}]"),
            "allow connect=10.0.0.1:80\ndeny connect=10.0.0.1:81\ndeny connect=10.0.0.2:80\n");
}

TEST(LegacyDocument, NullSectionsAndDefaultsAreEmpty) {
  EXPECT_EQ(rules("version: 1\ndefaults: null\nfs: null\nnet: null\nimports: null\n"), "");
}

TEST(LegacyDocument, ChildLimitsReplaceInheritedOnes) {
  const std::string text =
      "defaults: {cpu_ms: 10}\nsandboxes: {a: {cpu_ms: 20}, b: {extends: a}, c: {extends: b, "
      "cpu_ms: "
      "30}, d: {}}";
  EXPECT_EQ(rules(text, "a"), "cpu=20ms\n");
  EXPECT_EQ(rules(text, "b"), "cpu=20ms\n");
  EXPECT_EQ(rules(text, "c"), "cpu=30ms\n");
  EXPECT_EQ(rules(text, "d"), "cpu=10ms\n");
}

TEST(LegacyDocument, ReadAndWriteOfOnePathIsNoConflict) {
  EXPECT_EQ(rules("fs: [{read: /srv}, {write: /srv}]"), "allow write=/srv\n");
}

// ---- What its compiler refuses, this one refuses.

TEST(LegacyDocument, ItsErrorsAreErrorsHere) {
  const auto is_refused = [](std::string_view text) { return !compile(text, "x.yaml"); };
  EXPECT_TRUE(is_refused("[]"));
  EXPECT_TRUE(is_refused("version: 3"));
  EXPECT_TRUE(is_refused("defaults: []"));
  EXPECT_TRUE(is_refused("sandboxes: []"));
  EXPECT_TRUE(is_refused("sandboxes: {a: []}"));
  EXPECT_TRUE(is_refused("fs: /srv"));
  EXPECT_TRUE(is_refused("fs: [/srv]"));
  EXPECT_TRUE(is_refused("fs: [{allow: /a, deny: /b}]"));
  EXPECT_TRUE(is_refused("fs: [{grant: /a}]"));
  EXPECT_TRUE(is_refused("fs: [{allow: /a}, {deny: /a}]"));
  EXPECT_TRUE(is_refused("net: [\"a:1\"]"));
  EXPECT_TRUE(is_refused("net: [{connect: 5}]"));
  EXPECT_TRUE(is_refused("net: [{connect: \"a:1\"}, {deny: \"a:1\"}]"));
  EXPECT_TRUE(is_refused("imports: [5]"));
  EXPECT_TRUE(is_refused("cpu_ms: 0"));
  EXPECT_TRUE(is_refused("cpu_ms: -5"));
  EXPECT_TRUE(is_refused("sandboxes: {a: {extends: [b]}, b: {}}"));
  EXPECT_TRUE(is_refused("sandboxes: {a: {extends: b}}"));
  EXPECT_TRUE(is_refused("sandboxes: {a: {extends: b}, b: {extends: a}}"));
}

// ---- What it takes and this compiler refuses: each is listed in the reference with its reason.

TEST(LegacyDifference, KeysThatItIgnoresAreRefused) {
  EXPECT_EQ(rules("mem: 256MiB\n"), "x.yaml:1:1: unknown key 'mem'; did you mean 'memory'?\n");
  EXPECT_THAT(rules("sandboxes: {a: {}}\nimports: [x]"), HasSubstr("stands beside 'sandboxes'"));
  EXPECT_THAT(rules("defaults: {extends: a}\nsandboxes: {a: {}}"), HasSubstr("cannot stand in"));
}

TEST(LegacyDifference, ValuesThatItDoesNotCheckAreRefused) {
  EXPECT_THAT(rules("cpu_ms: true"), HasSubstr("positive whole number"));
  EXPECT_THAT(rules("fs: [{allow: 5}]"), HasSubstr("must be text"));
  EXPECT_THAT(rules("fs: [{allow: relative/path}]"), HasSubstr("not absolute"));
  EXPECT_THAT(rules("fs: [{allow: /a/../b}]"), HasSubstr("'..'"));
  EXPECT_THAT(rules("fs: [{allow: \"/a/[xy]\"}]"), HasSubstr("no wildcard"));
  EXPECT_THAT(rules("net: [{connect: \"a.example.com:99999\"}]"), HasSubstr("port"));
  EXPECT_THAT(rules("net: [{connect: \"nonsense\"}]"), HasSubstr("x.yaml:1:17"));
}

TEST(LegacyDifference, WhatItsOwnWriterEmitsCompilesHere) {
  // Its writer gives all three for one call; its compiler calls that a conflict.
  EXPECT_EQ(
      rules(
          "version: 1.0\nsandboxes: {default: {fs: [{allow: /srv}, {read: /srv}, {write: /srv}]}}",
          "default"),
      "allow write=/srv\n");
}

}  // namespace
}  // namespace glovebox::policy
