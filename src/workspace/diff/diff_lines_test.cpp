#include "workspace/diff/diff_lines.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace glovebox::workspace {
namespace {

using Lines = std::vector<std::string_view>;

// Applies the edits and returns what comes out, checking their order on the way.
Lines apply(const Lines& before, const Lines& after, const std::vector<Edit>& edits) {
  Lines out;
  std::size_t at = 0;
  for (const Edit& edit : edits) {
    EXPECT_LE(at, edit.before_begin);
    EXPECT_LT(edit.before_begin + edit.after_begin, edit.before_end + edit.after_end);
    out.insert(out.end(), before.begin() + static_cast<std::ptrdiff_t>(at),
               before.begin() + static_cast<std::ptrdiff_t>(edit.before_begin));
    EXPECT_EQ(out.size(), edit.after_begin);
    out.insert(out.end(), after.begin() + static_cast<std::ptrdiff_t>(edit.after_begin),
               after.begin() + static_cast<std::ptrdiff_t>(edit.after_end));
    at = edit.before_end;
  }
  out.insert(out.end(), before.begin() + static_cast<std::ptrdiff_t>(at), before.end());
  return out;
}

std::size_t cost(const std::vector<Edit>& edits) {
  std::size_t sum = 0;
  for (const Edit& edit : edits) {
    sum += edit.before_end - edit.before_begin + edit.after_end - edit.after_begin;
  }
  return sum;
}

// The length of a shortest script, by the textbook's table.
std::size_t shortest(const Lines& a, const Lines& b) {
  std::vector<std::vector<std::size_t>> common(a.size() + 1,
                                               std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      common[i + 1][j + 1] =
          a[i] == b[j] ? common[i][j] + 1 : std::max(common[i][j + 1], common[i + 1][j]);
    }
  }
  return a.size() + b.size() - 2 * common[a.size()][b.size()];
}

TEST(SplitLines, KeepsNewlinesAndAnUnfinishedLast) {
  EXPECT_EQ(split_lines(""), Lines());
  EXPECT_EQ(split_lines("a\nb"), (Lines{"a\n", "b"}));
  EXPECT_EQ(split_lines("a\n\n"), (Lines{"a\n", "\n"}));
}

TEST(DiffLines, FindsTheOneLineThatChanged) {
  EXPECT_EQ(diff_lines({"a", "b", "c"}, {"a", "x", "c"}), (std::vector<Edit>{{1, 2, 1, 2}}));
  EXPECT_EQ(diff_lines({"a"}, {"a"}), std::vector<Edit>());
  EXPECT_EQ(diff_lines({}, {"a"}), (std::vector<Edit>{{0, 0, 0, 1}}));
  EXPECT_EQ(diff_lines({"a"}, {}), (std::vector<Edit>{{0, 1, 0, 0}}));
}

TEST(DiffLines, ScriptsAreRightAndShortest) {
  std::mt19937 random(7);
  const std::vector<std::string> words = {"a", "b", "c", "d"};
  for (int round = 0; round < 3000; ++round) {
    Lines before;
    Lines after;
    const std::size_t alphabet = 1 + random() % words.size();
    for (std::size_t i = random() % 24; i > 0; --i) before.push_back(words[random() % alphabet]);
    for (std::size_t i = random() % 24; i > 0; --i) after.push_back(words[random() % alphabet]);
    const auto edits = diff_lines(before, after);
    ASSERT_EQ(apply(before, after, edits), after) << "round " << round;
    ASSERT_EQ(cost(edits), shortest(before, after)) << "round " << round;
  }
}

// Nothing in common and much of it: the search gives up, and what it gives is still right.
TEST(DiffLines, HostileTextsTakeBoundedTime) {
  std::mt19937 random(8);
  std::vector<std::string> store;
  for (int i = 0; i < 60000; ++i) store.push_back(std::to_string(random() % 500));
  const Lines before(store.begin(), store.begin() + 30000);
  const Lines after(store.begin() + 30000, store.end());
  EXPECT_EQ(apply(before, after, diff_lines(before, after)), after);
}

}  // namespace
}  // namespace glovebox::workspace
