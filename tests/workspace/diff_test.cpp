#include "workspace/fixture.h"
#include "workspace/tree/xattrs.h"

#include <gmock/gmock.h>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Diff : public WorkspaceTest {
 protected:
  void SetUp() override {
    WorkspaceTest::SetUp();
    fs::create_directories(origin() / "d/sub");
    write_file(origin() / "a", "1\n2\n3\n4\n5\n6\n7\n8\n");
    write_file(origin() / "b", "b\n");
    write_file(origin() / "d/x", "x content\n");
    write_file(origin() / "d/sub/y", "y content\n");
  }

  std::string unified(Reader reader = Reader::Program) {
    std::string out;
    const auto written = write_unified(changes(), *layer().open_upper(), *layer().open_original(),
                                       reader, [&](std::string_view piece) -> Result<void> {
                                         out += piece;
                                         return {};
                                       });
    EXPECT_TRUE(written);
    return out;
  }
};

TEST_F(Diff, ListsWhatTheKernelWrote) {
  begin();
  in_overlay([](const fs::path& merged) {
    write_file(merged / "a", "1\n2\n3\nfour\n5\n6\n7\n8\n");
    fs::remove(merged / "b");
    write_file(merged / "new", "n\n");
    fs::rename(merged / "d/x", merged / "moved");
    fs::remove_all(merged / "d/sub");
    fs::create_directory(merged / "d/sub");
    write_file(merged / "d/sub/z", "z\n");
    fs::create_symlink("a", merged / "link");
  });
  EXPECT_THAT(to_lines(changes()),
              ElementsAre("modified a (content)", "deleted b", "deleted d/sub/y", "added d/sub/z",
                          "added link", "renamed moved from d/x", "added new"));
}

TEST_F(Diff, ACopiedUpAndUnchangedFileIsNoChange) {
  begin();
  in_overlay([](const fs::path& merged) {
    ::chmod((merged / "a").c_str(), 0600);
    ::chmod((merged / "a").c_str(), 0644);
    const auto time = fs::last_write_time(merged / "b");
    fs::last_write_time(merged / "b", time + std::chrono::hours(1));
  });
  EXPECT_TRUE(fs::exists(upper() / "a"));
  EXPECT_THAT(changes(), testing::IsEmpty());
}

TEST_F(Diff, UnifiedTextIsWhatPatchTakes) {
  begin();
  fs::create_directory(upper() / "d");
  write_file(upper() / "a", "1\n2\n3\nfour\n5\n6\n7\n8");
  make_whiteout(upper() / "b");
  write_file(upper() / "d/n", "one\n");
  ::chmod((upper() / "d/n").c_str(), 0755);
  EXPECT_EQ(
      unified(),
      "diff --git a/b b/b\ndeleted file mode 100644\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
      "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,8 +1,8 @@\n 1\n 2\n 3\n-4\n+four\n 5\n 6\n 7\n"
      "-8\n+8\n\\ No newline at end of file\n"
      "diff --git a/d/n b/d/n\nnew file mode 100755\n--- /dev/null\n+++ b/d/n\n@@ -0,0 +1 @@\n"
      "+one\n");
}

// What we write, git takes: the patch applied to a copy gives the tree of a commit.
TEST_F(Diff, GitAppliesThePatch) {
  if (::access("/usr/bin/git", X_OK) != 0) GTEST_SKIP() << "git is not installed";
  begin();
  in_overlay([](const fs::path& merged) {
    write_file(merged / "a", "0\n1\n2\n3\n5\n6\n7\n8\nnine");
    fs::remove(merged / "b");
    fs::rename(merged / "d/x", merged / "d/moved");
    write_file(merged / "d/sub/y", "");
    fs::create_symlink("a", merged / "link");
    write_file(merged / "tab\tname", "odd\n");
    fs::create_directory(merged / "fresh");
    write_file(merged / "fresh/binary", std::string("a\0b", 3));
    ::chmod((merged / "d/moved").c_str(), 0755);
  });
  write_file(temp().path("patch"), unified());
  const fs::path copy = temp().path("copy");
  fs::copy(origin(), copy, fs::copy_options::recursive);
  const std::string command =
      fmt::format("cd {} && GIT_DIR=/nonexistent git apply ../patch", copy.string());
  ASSERT_EQ(std::system(command.c_str()), 0) << unified();
  ASSERT_FALSE(commit_all().is_refused());
  EXPECT_EQ(read_tree(copy), read_tree(origin()));
}

// Both programs skip such lines.
TEST_F(Diff, WhatAPatchHasNoWordsForIsARemark) {
  begin();
  in_overlay([](const fs::path& merged) {
    fs::create_directory(merged / "new dir");
    ::mkfifo((merged / "pipe").c_str(), 0600);
    ::chmod((merged / "a").c_str(), 0600);
  });
  EXPECT_EQ(unified(),
            "# mode of a: 0600, was 0644\n"
            "# new directory \"new dir\", mode 0755\n"
            "# new fifo pipe, mode 0600\n");
}

TEST_F(Diff, TerminalsGetNoControlCharacters) {
  begin();
  write_file(upper() / "e\x1b]0;x\n", "line\x1b[31m\n\xff\n");
  write_file(upper() / "bin", std::string("a\0b", 3));
  const std::string text = unified(Reader::Terminal);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\xff'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("Binary files /dev/null and b/bin differ\n"));
  std::string stat;
  ASSERT_TRUE(write_stat(changes(), *layer().open_upper(), *layer().open_original(),
                         [&](std::string_view piece) -> Result<void> {
                           stat += piece;
                           return {};
                         }));
  EXPECT_EQ(stat.find('\x1b'), std::string::npos);
  EXPECT_THAT(stat, HasSubstr("2 changes, 2 lines added"));
}

TEST_F(Diff, JsonHasExactBytesOfOddNames) {
  begin();
  write_file(upper() / "\xff\n", "");
  EXPECT_THAT(diff_to_json(changes()),
              HasSubstr(R"("path":"\\xff\\x0a","path_hex":"ff0a","kind":"added")"));
}

TEST_F(Diff, TarHoldsTheChanges) {
  begin();
  const std::string deep = std::string(120, 'n') + "/" + std::string(90, 'm');
  fs::create_directories((upper() / deep).parent_path());
  write_file(upper() / deep, "long name\n");
  write_file(upper() / "a", std::string(300000, 'q'));
  fs::create_symlink(std::string(150, 't'), upper() / "link");
  make_whiteout(upper() / "b");
  std::string tar;
  ASSERT_TRUE(write_tar_gz(changes(), *layer().open_upper(), {},
                           [&](std::string_view piece) -> Result<void> {
                             tar += piece;
                             return {};
                           }));
  write_file(temp().path("x.tar.gz"), tar);
  const fs::path out = temp().path("out");
  fs::create_directory(out);
  const std::string command = fmt::format("tar -xzf {} -C {} --no-same-owner",
                                          temp().path("x.tar.gz").string(), out.string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_text(out / deep), "long name\n");
  EXPECT_EQ(read_text(out / "a"), std::string(300000, 'q'));
  EXPECT_EQ(fs::read_symlink(out / "link"), std::string(150, 't'));
  EXPECT_THAT(read_text(out / ".glovebox/changes.json"),
              HasSubstr(R"("path":"b","kind":"deleted")"));
}

}  // namespace
}  // namespace glovebox::workspace::test
