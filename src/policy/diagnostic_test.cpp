#include "policy/diagnostic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

namespace glovebox::policy {
namespace {

constexpr std::array<std::string_view, 5> kWords{"connect", "memory", "cpu", "cpus", "open_files"};

// Piece by piece: g++ 12 warns about nested braces around strings.
Diagnostic problem(std::string file, std::size_t line, std::size_t column, std::string what,
                   std::string hint = {}) {
  Diagnostic diagnostic;
  diagnostic.where = Where{std::move(file), line, column};
  diagnostic.what = std::move(what);
  diagnostic.hint = std::move(hint);
  return diagnostic;
}

TEST(Diagnostic, ReadsAsFilePositionProblemAndHint) {
  EXPECT_EQ(
      to_text(problem("policies/x.yaml", 12, 5, "unknown key 'conect'", "did you mean 'connect'?")),
      "policies/x.yaml:12:5: unknown key 'conect'; did you mean 'connect'?");
  EXPECT_EQ(to_text(problem("x.yaml", 0, 0, "the document is empty")),
            "x.yaml: the document is empty");
}

TEST(Diagnostic, StaysOneLineWhateverTheFileIsCalled) {
  EXPECT_EQ(to_text(problem("a\nb", 1, 2, "x")), "a\\x0ab:1:2: x");
}

TEST(Diagnostic, ALongListSaysHowManyMoreThereAre) {
  const Diagnostics many(kMaxDiagnostics + 7, problem("x", 1, 1, "bad"));
  const std::string text = to_text(many);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<long>(kMaxDiagnostics + 1));
  EXPECT_TRUE(text.ends_with("and 7 more\n"));
}

TEST(FindNearest, FindsWhatOneOrTwoEditsMake) {
  EXPECT_EQ(find_nearest("conect", kWords), "connect");
  EXPECT_EQ(find_nearest("connnect", kWords), "connect");
  EXPECT_EQ(find_nearest("conenct", kWords), "connect");  // a swap is one edit
  EXPECT_EQ(find_nearest("open-files", kWords), "open_files");
  EXPECT_EQ(find_nearest("mem", kWords), "memory");
  EXPECT_EQ(find_nearest("cpus", kWords), "cpus");
}

TEST(FindNearest, FindsNothingThatIsFar) {
  EXPECT_EQ(find_nearest("network", kWords), "");
  EXPECT_EQ(find_nearest("", kWords), "");
  EXPECT_EQ(find_nearest("zz", kWords), "");
  EXPECT_EQ(find_nearest(std::string(5000, 'c'), kWords), "");
}

}  // namespace
}  // namespace glovebox::policy
