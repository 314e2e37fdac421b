#include "mcp/profile/deny_glob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace glovebox::mcp {
namespace {

using policy::DirectoryEntry;
using policy::EntryKind;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const std::vector<std::string> kPlaces{"/ws"};

DenyGlob parsed(std::string_view pattern) {
  auto glob = DenyGlob::parse(pattern, kPlaces);
  EXPECT_TRUE(glob) << pattern << ": " << (glob ? "" : glob.error().message);
  return glob ? *std::move(glob) : *DenyGlob::parse("/ws", kPlaces);
}

std::string refusal(std::string_view pattern) {
  const auto glob = DenyGlob::parse(pattern, kPlaces);
  return glob ? "accepted" : glob.error().message;
}

bool matches(std::string_view pattern, std::string_view below) {
  return parsed(pattern).matches(below, EntryKind::Other);
}

TEST(DenyGlob, WithoutASlashItIsAboutNamesAtEveryDepth) {
  EXPECT_TRUE(matches("/ws/*.env", "a.env"));
  EXPECT_TRUE(matches("/ws/*.env", "deep/down/.env"));
  EXPECT_FALSE(matches("/ws/*.env", "a.env.txt"));
}

TEST(DenyGlob, WithASlashItBeginsAtItsDirectory) {
  EXPECT_TRUE(matches("/ws/a*/x", "ab/x"));
  EXPECT_FALSE(matches("/ws/a*/x", "deep/ab/x"));
  EXPECT_TRUE(matches("/ws/**/a*/x", "deep/ab/x"));
  EXPECT_EQ(parsed("/ws/sub/a*/x").root(), "/ws/sub");
}

TEST(DenyGlob, AllThatIsInADirectory) {
  const DenyGlob glob = parsed("/ws/secrets/**");
  EXPECT_EQ(glob.root(), "/ws/secrets");
  EXPECT_TRUE(glob.matches("", EntryKind::Directory));
  EXPECT_FALSE(glob.matches("", EntryKind::Other));
  EXPECT_TRUE(parsed("/ws/**/out/**").matches("deep/out", EntryKind::Directory));
  EXPECT_TRUE(parsed("/ws/**/").matches("", EntryKind::Directory));
}

TEST(DenyGlob, ClassesChoicesAndEscapes) {
  EXPECT_TRUE(matches("/ws/[x-z]?.t*", "y1.txt"));
  EXPECT_FALSE(matches("/ws/[!x-z]", "y"));
  EXPECT_TRUE(matches("/ws/[]]*", "]a"));
  EXPECT_TRUE(matches("/ws/[x", "[x"));  // never closed: by the letter
  EXPECT_TRUE(matches("/ws/*.{env,{a,b}c}", "x.bc"));
  EXPECT_FALSE(matches("/ws/*.{env,{a,b}c}", "x.c"));
  EXPECT_TRUE(matches(R"(/ws/[a]\*)", "a*"));
  EXPECT_FALSE(matches(R"(/ws/[a]\*)", "ab"));
}

TEST(DenyGlob, ACharacterIsAByteOrAWholeOne) {
  EXPECT_TRUE(matches("/ws/?.txt", "\xc3\xbc.txt"));
  EXPECT_TRUE(matches("/ws/??.txt", "\xc3\xbc.txt"));
  EXPECT_TRUE(matches("/ws/?.txt", "\xff.txt"));
  EXPECT_TRUE(matches("/ws/[\xc3\xbc].txt", "\xc3\xbc.txt"));
}

TEST(DenyGlob, TheWorkspaceIsTakenByTheLetter) {
  const std::vector<std::string> places{"/srv/my[x]"};
  const auto glob = DenyGlob::parse("/srv/my[x]/**/*.env", places);
  ASSERT_TRUE(glob);
  EXPECT_EQ(glob->root(), "/srv/my[x]");
}

TEST(DenyGlob, WithoutWildcardsItIsAPath) {
  const DenyGlob glob = parsed("/ws/secrets/");
  EXPECT_FALSE(glob.has_wildcards());
  EXPECT_EQ(glob.root(), "/ws/secrets");
}

TEST(DenyGlob, WhatCannotBeReadIsRefusedByName) {
  EXPECT_THAT(refusal("/ws/[z-a]"), HasSubstr("'/ws/[z-a]': a range ends before it begins"));
  EXPECT_THAT(refusal("/ws/*{a"), HasSubstr("a '{' without '}'"));
  EXPECT_THAT(refusal("/ws/*a}"), HasSubstr("a '}' without '{'"));
  EXPECT_THAT(refusal("/**/x"), HasSubstr("begins at the root directory"));
  EXPECT_THAT(refusal("/ws/*/../x"), HasSubstr("'..' is not taken"));
  EXPECT_THAT(refusal("*.env"), HasSubstr("not absolute"));
  EXPECT_THAT(refusal("/ws/*.env "), HasSubstr("ends in a space"));
  EXPECT_THAT(refusal("/ws/*.env\\ "), HasSubstr("ends in a space"));
  EXPECT_THAT(refusal("/ws/*\t"), HasSubstr("ends in a space"));
  EXPECT_THAT(refusal("/ws/x[/a]y"), HasSubstr("a '/' in brackets"));
  EXPECT_THAT(refusal("/ws/[b][!/a]y"), HasSubstr("a '/' in brackets"));
  EXPECT_THAT(refusal("/ws/*\\"), HasSubstr("backslash"));
  EXPECT_THAT(refusal("/ws/*{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"), HasSubstr("more than 64"));
}

// There is no pattern that makes it worse than the product of the lengths.
TEST(DenyGlob, MatchingCannotBeMadeSlow) {
  std::string pattern = "/ws";
  std::string below = "x";
  for (int i = 0; i < 25; ++i) pattern += "/**/a*a*a*a*b";
  for (int i = 0; i < 200; ++i) below += "/aaaaaaaaaaaaaaaa";
  EXPECT_FALSE(matches(pattern, below));
}

class FakeDisk final : public policy::Lister {
 public:
  std::map<std::string, std::vector<DirectoryEntry>> directories;

  Result<std::optional<EntryKind>> look_at(const std::string& path) override {
    if (directories.contains(path)) return std::optional(EntryKind::Directory);
    return std::optional<EntryKind>();
  }
  Result<std::vector<DirectoryEntry>> list(const std::string& directory,
                                           std::size_t /*limit*/) override {
    return directories[directory];
  }
};

class DenyGlobSearch : public testing::Test {
 protected:
  DenyGlobSearch() {
    disk.directories["/ws"] = {{"a.env", EntryKind::Other},
                               {"link.env", EntryKind::Symlink},
                               {"sub", EntryKind::Directory}};
    disk.directories["/ws/sub"] = {{"b.env", EntryKind::Other}, {"open", EntryKind::Directory}};
    disk.directories["/ws/sub/open"] = {{"c.env", EntryKind::Other}, {"d", EntryKind::Other}};
  }

  std::vector<std::string> found(std::string_view pattern, const std::vector<std::string>& kept) {
    const DenyGlob glob = parsed(pattern);
    const auto paths = find_matches(glob, glob.root(), kept, disk);
    EXPECT_TRUE(paths) << (paths ? "" : paths.error().message);
    return paths.value_or(std::vector<std::string>());
  }

  FakeDisk disk;
};

TEST_F(DenyGlobSearch, FindsFilesAndNoLinks) {
  EXPECT_THAT(found("/ws/*.env", {"/ws"}),
              UnorderedElementsAre("/ws/a.env", "/ws/sub/b.env", "/ws/sub/open/c.env"));
}

TEST_F(DenyGlobSearch, CoversWholeDirectories) {
  EXPECT_THAT(found("/ws/sub/**", {"/ws"}), UnorderedElementsAre("/ws/sub"));
  EXPECT_THAT(found("/ws/**", {"/ws"}), UnorderedElementsAre("/ws/a.env", "/ws/sub"));
  EXPECT_THAT(found("/ws/none/**", {"/ws"}), UnorderedElementsAre());
}

TEST_F(DenyGlobSearch, AGrantInsideKeepsItsDirectoryAndNotWhatIsInIt) {
  EXPECT_THAT(
      found("/ws/**", {"/ws", "/ws/sub/open"}),
      UnorderedElementsAre("/ws/a.env", "/ws/sub/b.env", "/ws/sub/open/c.env", "/ws/sub/open/d"));
}

TEST_F(DenyGlobSearch, ANameThatNoRuleCanSpellIsRefused) {
  disk.directories["/ws"].push_back({"*.env", EntryKind::Other});
  const auto paths = find_matches(parsed("/ws/*.env"), "/ws", {}, disk);
  ASSERT_FALSE(paths);
  EXPECT_THAT(paths.error().message, HasSubstr("/ws/*.env"));
}

}  // namespace
}  // namespace glovebox::mcp
