#include "guest/shell/shell_text.h"

#include <gtest/gtest.h>

namespace glovebox::guest {
namespace {

TEST(ShellText, QuotingIsOneWordThatMeansTheText) {
  EXPECT_EQ(quoted(""), "''");
  EXPECT_EQ(quoted("a b$c"), "'a b$c'");
  EXPECT_EQ(quoted("it's"), R"('it'\''s')");
  EXPECT_EQ(quoted("''"), R"(''\'''\''')");
}

TEST(ShellText, RunOfBash) {
  const ShellRunText text{"/s/o", "/s/e", "", "", {"A=1"}, "echo 'x'"};
  EXPECT_EQ(run_file_text(ShellKind::Bash, text),
            R"(\command exec >'/s/o' 2>'/s/e'&&A='1' )"
            R"(\command eval -- 'echo '\''x'\''' 59>&- </dev/null)"
            "\n");
  EXPECT_EQ(run_lines(ShellKind::Bash, "/s/r", "abc"), R"(\command . /s/r)"
                                                       "\n"
                                                       R"({ \command echo abc $?>&59;} 2>&-)"
                                                       "\n");
  EXPECT_EQ(quiet_line(ShellKind::Bash, "abc"),
            R"(\command exec >/dev/null 2>&1;\command echo .abc >&59)"
            "\n");
}

TEST(ShellText, JoinedStreamsAreOpenedOnce) {
  const ShellRunText text{"/s/o", "/s/o", "", "", {}, ":"};
  EXPECT_EQ(run_file_text(ShellKind::Bash, text),
            R"(\command exec >'/s/o' 2>&1&&\command eval -- ':' 59>&- </dev/null)"
            "\n");
}

TEST(ShellText, RunOfShIsOneLine) {
  const ShellRunText text{"/s/o", "/s/e", "/s/i", "/dir", {}, "true"};
  EXPECT_EQ(run_file_text(ShellKind::Sh, text),
            R"(\command exec >'/s/o' 2>'/s/e'&&{ \command echo + >&9;\command cd '/dir' &&)"
            R"(\command eval 'true' 9>&-;} <'/s/i')"
            "\n");
  EXPECT_EQ(run_lines(ShellKind::Sh, "/s/r", "abc"),
            R"(\command . /s/r;{ \command echo abc $?>&9;} 2>&-)"
            "\n");
}

TEST(ShellText, AssignmentsHaveNamesThatAShellKnows) {
  for (const char* good : {"A=", "_a1=x=y", "a=\n"}) EXPECT_TRUE(is_assignment(good)) << good;
  for (const char* bad : {"", "A", "=x", "1a=x", "a-b=x", "a b=x", "a;b=x", "ä=x"}) {
    EXPECT_FALSE(is_assignment(bad)) << bad;
  }
}

TEST(ShellText, MarksAreANonceAndAStatus) {
  EXPECT_EQ(parse_mark("abc 7"), (Mark{"abc", 7}));
  for (const char* bad : {"", "abc", " 7", "abc ", "abc 256", "abc -1", "abc 7 ", "abc 7x"}) {
    EXPECT_EQ(parse_mark(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace glovebox::guest
