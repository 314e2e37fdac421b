#include "mcp/repl/pager.h"

#include <boost/json/serialize.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace glovebox::mcp {
namespace {

std::string numbered(int lines) {
  std::string text;
  for (int i = 1; i <= lines; ++i) text += fmt::format("line {:03}\n", i);  // 9 characters each
  return text;
}

std::vector<std::string> texts(const boost::json::array& items) {
  std::vector<std::string> all;
  for (const auto& item : items) {
    const auto& object = item.as_object();
    all.emplace_back(object.contains("text") ? std::string(object.at("text").as_string())
                                             : "IMAGE");
  }
  return all;
}

Pager filled(int lines, std::size_t page = 90) {
  Pager pager(page);
  pager.add_text(numbered(lines));
  return pager;
}

TEST(Pager, ShowsWholeLinesAndSaysWhereItIs) {
  Pager pager = filled(25);
  const auto first = texts(pager.next_page());
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0], numbered(10));
  EXPECT_EQ(first[1], "--More-- (2p, 40.0%, @0..90/225)");
  EXPECT_EQ(texts(pager.next_page()).back(), "--More-- (1p, 80.0%, @90..180/225)");
  EXPECT_EQ(texts(pager.next_page()).back(), "(END, 100.0%, @180..225/225)");
  EXPECT_TRUE(pager.is_at_end());
}

TEST(Pager, CutsALineThatIsLongerThanAPage) {
  Pager pager(64);
  pager.add_text(std::string(200, 'x'));
  EXPECT_EQ(texts(pager.next_page())[0], std::string(64, 'x'));
}

TEST(Pager, CountsCharactersAndNotBytes) {
  Pager pager(64);
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\u20ac";
  pager.add_text(text);
  const auto page = texts(pager.next_page());
  EXPECT_EQ(page[0].size(), 64U * 3);
  EXPECT_EQ(page[1], "--More-- (1p, 64.0%, @0..64/100)");
  std::string four = "\xf0\x9f\x98\x80";
  Pager other(64);
  other.add_text(four);
  EXPECT_EQ(texts(other.next_page())[0], four);
}

TEST(Pager, Moves) {
  Pager pager = filled(100);
  EXPECT_EQ(texts(pager.command("goto 3"))[0].substr(0, 8), "line 021");
  EXPECT_EQ(texts(pager.command("seek line 50"))[0].substr(0, 8), "line 050");
  EXPECT_EQ(texts(pager.command("seek 50%"))[0].substr(0, 8), "line 051");
  EXPECT_EQ(texts(pager.command("seek 9"))[0].substr(0, 8), "line 002");
  EXPECT_EQ(texts(pager.command("skip 2"))[0].substr(0, 8), "line 032");
  EXPECT_EQ(texts(pager.command("next 2"))[0].size(), 180U);
  EXPECT_EQ(texts(pager.command("tail 2l"))[0], "line 099\nline 100\n");
  EXPECT_TRUE(pager.is_at_end());
  EXPECT_NE(texts(pager.command("fly"))[0].find("no command :fly"), std::string::npos);
  EXPECT_NE(texts(pager.command("seek nowhere"))[0].find(":seek OFFSET"), std::string::npos);
}

TEST(Pager, LeavesOutWhatWasShownBefore) {
  Pager pager = filled(30);
  (void)pager.next_page();
  EXPECT_EQ(texts(pager.command("range 81 99")),
            (std::vector<std::string>{"...[shown before: @81..90]...\n", "line 011\n",
                                      "--More-- (2p, 36.7%, @81..99/270)"}));
  EXPECT_EQ(texts(pager.command("a"))[0].substr(0, 8), "line 012");
}

TEST(Pager, SearchesBothWays) {
  Pager pager = filled(100);
  EXPECT_EQ(texts(pager.command("/05"))[0].substr(0, 8), "line 005");
  EXPECT_EQ(texts(pager.command("n"))[0].substr(0, 8), "line 050");
  EXPECT_EQ(texts(pager.command("n 2"))[0].substr(0, 8), "line 052");
  EXPECT_EQ(texts(pager.command("p"))[0].substr(0, 8), "line 051");
  EXPECT_EQ(texts(pager.command("/nothing"))[0], "[pager] no match\n");
  EXPECT_EQ(texts(pager.command("where -i LINE 00"))[0].substr(0, 40),
            "[pager] 9 matches: @0 (line 1) @9 (line ");
  EXPECT_EQ(texts(pager.command("matches -n 2 line 02"))[0],
            "@171: line 020\n@180: line 021\n[pager] 10 matches\n");
  EXPECT_EQ(texts(pager.command("hits --count 1 line 077"))[0],
            "line 77 @684: line 077\n[pager] 1 matches\n");
  EXPECT_EQ(texts(pager.command("matches -C 1 line 077"))[0],
            "@684: line 076\nline 077\nline 078\n[pager] 1 matches\n");
}

TEST(Pager, ShowsTwoImagesOnAPage) {
  Pager pager(kPageChars);
  for (int i = 0; i < 3; ++i) {
    pager.add_text(fmt::format("before {}\n", i));
    pager.add_image("png");
  }
  pager.add_text("after\n");
  const auto first = texts(pager.next_page());
  EXPECT_EQ(first, (std::vector<std::string>{"before 0\n", "IMAGE", "before 1\n", "IMAGE",
                                             "before 2\n", first.back()}));
  EXPECT_EQ(texts(pager.next_page())[0], "IMAGE");
}

TEST(Pager, KeepsABoundedTail) {
  Pager pager(kPageChars);
  for (int i = 0; i < 40; ++i) pager.add_text(std::string(100'000, 'a') + "\n");
  const auto page = texts(pager.next_page());
  EXPECT_EQ(page[0], "[repl] output truncated (older output dropped)\n");
  EXPECT_NE(page.back().find(fmt::format("/{})", kPagerChars)), std::string::npos);
}

TEST(Pager, Quits) {
  Pager pager = filled(100);
  EXPECT_FALSE(pager.has_quit());
  (void)pager.command("q");
  EXPECT_TRUE(pager.has_quit());
}

}  // namespace
}  // namespace glovebox::mcp
