#include "serve/bodies/file_paths.h"

#include "serve/bodies/file_ranges.h"

#include <gmock/gmock.h>

namespace glovebox::serve {
namespace {

session::SessionInfo example() {
  session::SessionInfo info;
  info.workspaces = {{.path = "/w", .mode = WorkspaceMode::Overlay, .layer_id = "1"},
                     {.path = "/w/ro", .mode = WorkspaceMode::Read, .layer_id = ""}};
  info.effective.binds = {{.source = "/data/x", .dest = "/mnt/x", .mode = WorkspaceMode::Read},
                          {.source = "/data/y", .dest = "", .mode = WorkspaceMode::Write}};
  return info;
}

TEST(FileRoots, FindByTheLongestPrefix) {
  const FileRoots roots(example());
  EXPECT_EQ(roots.find("/w/a", FileUse::Write)->path, "/w/a");
  EXPECT_EQ(roots.find("a/./b/../c", FileUse::Write)->path, "/w/a/c");
  EXPECT_EQ(roots.find("/data/y/f", FileUse::Write)->path, "/data/y/f");
  EXPECT_TRUE(roots.find("/w/ro/a", FileUse::Read));
  EXPECT_EQ(roots.find("/w/ro/a", FileUse::Write).error().status, 403);
  EXPECT_EQ(roots.find("/mnt/x/a", FileUse::Write).error().status, 403);
  EXPECT_EQ(roots.find("/w/ro2", FileUse::Write)->root, 0U);
}

TEST(FileRoots, RefuseWhatIsOutside) {
  const FileRoots roots(example());
  for (const std::string path :
       {"", "/", "/etc/passwd", "/w2", "../x", "/w/../etc", "a/../../b", "/../..", "/data/x/f"}) {
    const auto found = roots.find(path, FileUse::Read);
    ASSERT_FALSE(found) << path;
    EXPECT_EQ(found.error().status, 400) << path;
  }
  EXPECT_FALSE(roots.find(std::string("a\0b", 3), FileUse::Read));
}

TEST(FileRoots, TellPathsRelativeToTheFirst) {
  const FileRoots roots(example());
  EXPECT_EQ(roots.relative("/w/a/b"), "a/b");
  EXPECT_EQ(roots.relative("/w"), ".");
  EXPECT_EQ(roots.relative("/data/y/f"), "/data/y/f");
}

TEST(Modes, AreOctalDigitsInDecimal) {
  EXPECT_EQ(mode_from_digits(644), 0644U);
  EXPECT_EQ(mode_from_digits(4755), 04755U);
  EXPECT_EQ(mode_from_digits(7), 07U);
  EXPECT_FALSE(mode_from_digits(648));
  EXPECT_FALSE(mode_from_digits(12345));
  EXPECT_FALSE(mode_from_digits(-1));
  EXPECT_EQ(mode_to_digits(0644), 644);
  EXPECT_EQ(mode_to_digits(04755), 755) << "permission bits alone";
}

std::optional<ByteRange> range(std::string_view header, std::uint64_t size) {
  return parse_range(header, size).value();
}

TEST(Ranges, TheFirstThatFitsIsServed) {
  EXPECT_EQ(range("bytes=0-3", 10), (ByteRange{0, 3}));
  EXPECT_EQ(range("bytes=8-99", 10), (ByteRange{8, 9}));
  EXPECT_EQ(range("bytes=4-", 10), (ByteRange{4, 9}));
  EXPECT_EQ(range("bytes=-3", 10), (ByteRange{7, 9}));
  EXPECT_EQ(range("bytes=-30", 10), (ByteRange{0, 9}));
  EXPECT_EQ(range("bytes=20-30, 2-3, 4-5", 10), (ByteRange{2, 3}));
  EXPECT_EQ(range("bytes=10-", 10), std::nullopt);
  EXPECT_EQ(range("bytes=0-", 0), std::nullopt);
  EXPECT_EQ(range("bytes=-0", 10), std::nullopt);
  for (const char* bad : {"bytes=a-b", "bytes=3-2", "bytes", "lines=1-2", "bytes=1", "bytes=--1",
                          "bytes=1-2-3", "bytes=99999999999999999999-"}) {
    const auto parsed = parse_range(bad, 10);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().status, 416);
  }
}

std::string lines(std::string_view text, std::uint64_t offset, std::optional<std::uint64_t> limit,
                  std::size_t step) {
  LineCutter cutter(offset, limit);
  std::string out;
  while (!text.empty()) {
    if (!cutter.add(text.substr(0, step), out)) break;
    text.remove_prefix(std::min(step, text.size()));
  }
  return out;
}

TEST(Lines, AreCutWhateverThePieces) {
  for (std::size_t step = 1; step < 20; ++step) {
    EXPECT_EQ(lines("a\nb\nc\n", 1, std::nullopt, step), "a\nb\nc") << step;
    EXPECT_EQ(lines("a\nb\nc\nd\n", 2, 2, step), "b\nc") << step;
    EXPECT_EQ(lines("a\r\nb\r\n", 1, std::nullopt, step), "a\nb") << step;
    EXPECT_EQ(lines("a\n\n\nb", 2, 3, step), "\n\nb") << step;
    EXPECT_EQ(lines("a\rb\n", 1, 1, step), "a\rb") << step;
    EXPECT_EQ(lines("a\nb", 3, 1, step), "") << step;
    EXPECT_EQ(lines("a\nb", 2, std::nullopt, step), "b") << step;
  }
}

TEST(ContentDisposition, EncodesWhatAHeaderCannotHold) {
  EXPECT_EQ(content_disposition("/w/a b.txt"), "attachment; filename=\"a b.txt\"");
  EXPECT_EQ(content_disposition("/w/\xc3\xa4.txt"),
            "attachment; filename=\"%C3%A4.txt\"; filename*=UTF-8''%C3%A4.txt");
  EXPECT_EQ(content_disposition("/w/a\"\r\nX: y"),
            "attachment; filename=\"a%22%0D%0AX%3A%20y\"; filename*=UTF-8''a%22%0D%0AX%3A%20y");
}

}  // namespace
}  // namespace glovebox::serve
