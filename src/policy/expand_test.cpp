#include "policy/expand.h"

#include "authority/terms.h"
#include "policy/compile.h"
#include "policy/disk_lister.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include <unistd.h>

namespace glovebox::policy {
namespace {

using authority::Effect;
using testing::HasSubstr;

// A disk in memory. Names that end with '/' are directories, with '@' symlinks.
class FakeDisk final : public Lister {
 public:
  explicit FakeDisk(const std::vector<std::string>& paths) {
    kinds_["/"] = EntryKind::Directory;
    for (std::string path : paths) {
      EntryKind kind = EntryKind::Other;
      if (path.back() == '/') kind = EntryKind::Directory;
      if (path.back() == '@') kind = EntryKind::Symlink;
      if (kind != EntryKind::Other) path.pop_back();
      for (std::size_t at = path.find('/', 1); at != std::string::npos;
           at = path.find('/', at + 1)) {
        kinds_.emplace(path.substr(0, at), EntryKind::Directory);
      }
      kinds_[path] = kind;
    }
  }

  Result<std::optional<EntryKind>> look_at(const std::string& path) override {
    const auto found = kinds_.find(path);
    if (found == kinds_.end()) return std::optional<EntryKind>();
    return found->second;
  }

  Result<std::vector<DirectoryEntry>> list(const std::string& directory,
                                           std::size_t limit) override {
    ++lists;
    if (directory == unreadable) return fail_os(EACCES, "list {}", directory);
    std::vector<DirectoryEntry> entries;
    const std::string prefix = directory == "/" ? "/" : directory + "/";
    for (const auto& [path, kind] : kinds_) {
      if (path == "/" || !path.starts_with(prefix)) continue;
      const std::string name = path.substr(prefix.size());
      if (name.find('/') == std::string::npos) entries.push_back({name, kind});
    }
    if (entries.size() > limit) return fail(Code::Exhausted, "more than {}", limit);
    return entries;
  }

  const std::map<std::string, EntryKind>& kinds() const { return kinds_; }

  std::string unreadable;
  int lists = 0;

 private:
  std::map<std::string, EntryKind> kinds_;
};

Policy compiled(std::string_view text) {
  auto file = compile(text, "x.yaml");
  if (!file) {
    ADD_FAILURE() << to_text(file.error());
    return {};
  }
  return file->sandboxes.front().policy;
}

std::string expanded(std::string_view text, Lister& disk) {
  const auto set = expand_patterns(compiled(text), disk);
  return set ? authority::to_text(*set) : set.error().message;
}

TEST(Expand, APatternBecomesWhatItMatches) {
  FakeDisk disk({"/srv/a.csv", "/srv/b.txt", "/srv/sub/c.csv", "/srv/sub/deep/d.csv", "/srv/.csv"});
  EXPECT_EQ(expanded("fs: {read: [\"/srv/*.csv\"]}", disk),
            "allow read=/srv/.csv\nallow read=/srv/a.csv\n");
  EXPECT_EQ(expanded("fs: {read: [\"/srv/**/*.csv\"]}", disk),
            "allow read=/srv/.csv\nallow read=/srv/a.csv\nallow read=/srv/sub/c.csv\n"
            "allow read=/srv/sub/deep/d.csv\n");
  EXPECT_EQ(expanded("fs: {read: [\"/srv/*/*\"]}", disk),
            "allow read=/srv/sub/c.csv\nallow read=/srv/sub/deep\n");
  EXPECT_EQ(expanded("fs: {read: [\"/srv/*/deep\", \"/nowhere/*\"]}", disk),
            "allow read=/srv/sub/deep\n");
}

TEST(Expand, WithoutPatternsTheDiskIsNotLookedAt) {
  FakeDisk disk({"/srv/"});
  EXPECT_EQ(expanded("fs: {read: [/srv, /none]}", disk), "allow read=/none\nallow read=/srv\n");
  EXPECT_EQ(disk.lists, 0);
}

TEST(Expand, DenialsInsideGrantsAndGrantsInsideDenials) {
  FakeDisk disk({"/srv/a.key", "/srv/keep.key", "/srv/x/b.key", "/srv/x/c"});
  EXPECT_EQ(
      expanded("fs: {read: [/srv, /srv/keep.key], deny: [{read: \"/srv/**/*.key\"}]}", disk),
      "allow read=/srv\ndeny read=/srv/a.key\ndeny write=/srv/keep.key\ndeny read=/srv/x/b.key\n");
  EXPECT_EQ(expanded("fs: {deny: [{read: /srv}], read: [\"/srv/*/c\"]}", disk),
            "deny read=/srv\nallow read=/srv/x/c\n");
}

TEST(Expand, SymlinksAreNeitherFollowedNorMatched) {
  FakeDisk disk({"/srv/a@", "/srv/b/x.csv", "/srv/l.csv@", "/srv/b/link@"});
  EXPECT_EQ(expanded("fs: {read: [\"/srv/**/*.csv\"]}", disk), "allow read=/srv/b/x.csv\n");
  EXPECT_EQ(expanded("fs: {read: [\"/srv/*\"]}", disk), "allow read=/srv/b\n");
  // Named in the pattern, a symlink is refused: a denial behind it would deny nothing.
  EXPECT_THAT(expanded("fs: {deny: [\"/srv/a/*\"]}", disk), HasSubstr("'/srv/a' is a symlink"));
}

TEST(Expand, WhatCannotBeReadIsRefusedNotSkipped) {
  FakeDisk disk({"/srv/secret/a.key"});
  disk.unreadable = "/srv/secret";
  EXPECT_THAT(expanded("fs: {deny: [\"/srv/**/*.key\"]}", disk), HasSubstr("EACCES"));
}

TEST(Expand, AMatchThatNoRuleCanNameIsRefused) {
  FakeDisk star({"/srv/a*b"});
  EXPECT_THAT(expanded("fs: {deny: [\"/srv/a*\"]}", star), HasSubstr("which no rule can name"));
  FakeDisk bytes({"/srv/a\xff"});
  EXPECT_THAT(expanded("fs: {deny: [\"/srv/a?\"]}", bytes), HasSubstr("'/srv/a\\xff'"));
  EXPECT_EQ(expanded("fs: {deny: [{write: \"/srv/b?\"}]}", bytes), "");
}

TEST(Expand, BoundsRefuse) {
  std::vector<std::string> paths;
  paths.reserve(kMaxMatches + 1);
  for (std::size_t i = 0; i <= kMaxMatches; ++i) paths.push_back(fmt::format("/srv/f{}", i));
  FakeDisk many(paths);
  EXPECT_THAT(expanded("fs: {read: [\"/srv/*\"]}", many),
              HasSubstr("matches more than 4096 paths"));
  paths.resize(kMaxMatches / 2 + 1);
  FakeDisk half(paths);
  EXPECT_THAT(expanded("fs: {read: [\"/srv/*\", \"/srv/f*\"]}", half), HasSubstr("together"));
}

// Every directory holds two more.
class EndlessDisk final : public Lister {
 public:
  explicit EndlessDisk(std::size_t depth) : depth_(depth) {}
  Result<std::optional<EntryKind>> look_at(const std::string&) override {
    return EntryKind::Directory;
  }
  Result<std::vector<DirectoryEntry>> list(const std::string& path, std::size_t) override {
    const auto slashes = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
    if (slashes >= depth_) return std::vector<DirectoryEntry>{};
    return std::vector<DirectoryEntry>{{"a", EntryKind::Directory}, {"b", EntryKind::Directory}};
  }

 private:
  std::size_t depth_;
};

TEST(Expand, ADiskWithoutEndIsGivenUp) {
  EndlessDisk wide(20);
  EXPECT_THAT(expanded("fs: {read: [\"/**/**/x*\"]}", wide), HasSubstr("more than 100000 entries"));
  EXPECT_THAT(expanded("fs: {read: [\"/a/**/a/**/b/**/zz*\"]}", wide),
              HasSubstr("more than 100000"));
  EndlessDisk deep(1'000'000);
  EXPECT_THAT(expanded("fs: {read: [\"/**/x*\"]}", deep), HasSubstr("deeper than a path can name"));
}

TEST(Expand, DoubleStarsVisitADirectoryOnce) {
  std::vector<std::string> paths;
  paths.reserve(60);
  std::string path;
  for (int i = 0; i < 60; ++i) paths.push_back((path += "/a"));
  FakeDisk disk(paths);
  EXPECT_EQ(expanded("fs: {read: [\"/**/a/**/a/**/a/**/a/**/b\"]}", disk), "");
  EXPECT_LT(disk.lists, 1000);
}

// ---- Property: what expansion gives is what decide_path() says, for every path there is.

TEST(ExpandProperty, AgreesWithDecidePathOnEverythingThatExists) {
  const FakeDisk world({"/a/a/a", "/a/a/b", "/a/b/a", "/a/b/b", "/b/a/a", "/b/a/b", "/b/b"});
  const std::vector<std::string> patterns{"/*",      "/a/*", "/*/a",    "/*/*/b", "/**/b",
                                          "/a/**/b", "/b/?", "/**/a/a", "/a/a/*"};
  const std::vector<std::string> plain{"/", "/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a", "/a/b/b"};
  const std::vector<PathUse> uses{PathUse::Read, PathUse::Write, PathUse::Exec, PathUse::Connect};
  for (unsigned seed = 1; seed <= 10'000; ++seed) {
    std::mt19937 random(seed);
    Policy policy;
    std::vector<authority::Rule> rules;
    const auto effect = [&] { return random() % 2 == 0 ? Effect::Allow : Effect::Deny; };
    for (std::size_t i = random() % 5; i > 0; --i) {
      const auto path = *authority::AbsolutePath::parse(plain[random() % plain.size()]);
      const PathUse use = uses[random() % 4];
      const Effect each = effect();
      rules.push_back({each, use_of_path(use, path)});
      policy.path_rules.push_back({PathPattern::exactly(path), use, each});
    }
    for (std::size_t i = 1 + random() % 4; i > 0; --i) {
      policy.path_rules.push_back({*PathPattern::parse(patterns[random() % patterns.size()]),
                                   uses[random() % 4], effect()});
    }
    policy.authority = *authority::AuthoritySet::from_rules(rules);
    normalise(policy);
    FakeDisk disk = world;
    const auto set = expand_patterns(policy, disk);
    ASSERT_TRUE(set) << set.error().message;
    for (const auto& [path, kind] : world.kinds()) {
      for (const PathUse use : uses) {
        const auto parsed = *authority::AbsolutePath::parse(path);
        ASSERT_EQ(set->decide(use_of_path(use, parsed)).effect,
                  decide_path(policy, {use, parsed}).effect)
            << "seed " << seed << " path " << path << " use " << static_cast<int>(use) << "\n"
            << authority::to_text(*set);
      }
    }
  }
}

// ---- The real disk.

class OnDisk : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "glovebox-expand-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = std::filesystem::canonical(name);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  void make_file(const std::string& name) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << "x";
  }

  std::filesystem::path root_;
};

TEST_F(OnDisk, FindsWhatIsThereAndPassesSymlinksBy) {
  make_file("a.key");
  make_file("sub/b.key");
  make_file("sub/c.txt");
  std::filesystem::create_symlink("/etc", root_ / "etc");
  std::filesystem::create_symlink(root_ / "a.key", root_ / "link.key");
  auto disk = DiskLister::open();
  ASSERT_TRUE(disk);
  const std::string root = root_.string();
  EXPECT_EQ(expanded(fmt::format("fs: {{read: [\"{}/**/*.key\"]}}", root), *disk),
            fmt::format("allow read={0}/a.key\nallow read={0}/sub/b.key\n", root));
  EXPECT_EQ(expanded(fmt::format("fs: {{read: [\"{}/*/b.*\"]}}", root), *disk),
            fmt::format("allow read={}/sub/b.key\n", root));
  EXPECT_THAT(expanded(fmt::format("fs: {{deny: [\"{}/etc/pass*\"]}}", root), *disk),
              HasSubstr("is a symlink"));
  EXPECT_EQ(
      expanded(fmt::format("fs: {{read: [\"{}/gone/*\", \"{}/a.key/*\"]}}", root, root), *disk),
      "");
}

TEST_F(OnDisk, TheListerRefusesASymlinkOnTheWay) {
  make_file("dir/x");
  std::filesystem::create_symlink("dir", root_ / "alias");
  auto disk = DiskLister::open();
  ASSERT_TRUE(disk);
  const auto through = disk->look_at((root_ / "alias/x").string());
  ASSERT_FALSE(through);
  EXPECT_THAT(through.error().message, HasSubstr("a symlink is on the way"));
  EXPECT_FALSE(disk->list((root_ / "alias").string(), 10));
  const auto itself = disk->look_at((root_ / "alias").string());
  ASSERT_TRUE(itself);
  EXPECT_EQ(*itself, EntryKind::Symlink);
}

TEST_F(OnDisk, TheListerCountsEntries) {
  for (int i = 0; i < 5; ++i) make_file(fmt::format("f{}", i));
  auto disk = DiskLister::open();
  ASSERT_TRUE(disk);
  EXPECT_EQ(disk->list(root_.string(), 5)->size(), 5U);
  EXPECT_EQ(disk->list(root_.string(), 4).error().code, Code::Exhausted);
}

TEST_F(OnDisk, AnUnreadableDirectoryIsAnError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every directory";
  make_file("closed/x.key");
  std::filesystem::permissions(root_ / "closed", std::filesystem::perms::none);
  auto disk = DiskLister::open();
  ASSERT_TRUE(disk);
  EXPECT_THAT(expanded(fmt::format("fs: {{deny: [\"{}/**/*.key\"]}}", root_.string()), *disk),
              HasSubstr("EACCES"));
  std::filesystem::permissions(root_ / "closed", std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace glovebox::policy
