#include "workspace/git/git_config.h"

#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

TEST(GitConfig, ReadsWhatGitReads) {
  const auto settings = parse_git_config(
      "# comment\n[core]\n\tbare = false ; comment\n\tfsmonitor\n"
      "[filter \"a.B\"] clean = \"x # y\" z\n[Remote \"o\"]\n\turl = a\\\n b\n url=\"c\\n\"\n");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(*settings, (GitSettings{{"core.bare", {"false"}},
                                    {"core.fsmonitor", {"true"}},
                                    {"filter.a.B.clean", {"x # y z"}},
                                    {"remote.o.url", {"a b", "c\n"}}}));
}

TEST(GitConfig, RefusesWhatItCannotRead) {
  for (const char* text : {"[core", "[core]\nx y\n", "x = 1\n", "[a]\nb = \"open\n",
                           "[a \"open]\nb=1\n", "[a]\nb = \\q\n", "[]\n", "[a]\n=b\n"}) {
    EXPECT_FALSE(parse_git_config(text)) << text;
  }
}

TEST(GitConfig, KeysHaveStarsForWholeParts) {
  const std::vector<std::string> keys = {"filter.*.clean", "alias.*", "core.hookspath"};
  EXPECT_TRUE(is_setting_of("filter.a.b.c.clean", keys));
  EXPECT_TRUE(is_setting_of("alias.st", keys));
  EXPECT_TRUE(is_setting_of("core.hooksPath", keys));
  EXPECT_FALSE(is_setting_of("filter.clean", keys));
  EXPECT_FALSE(is_setting_of("filter.a.required", keys));
  EXPECT_FALSE(is_setting_of("core.bare", keys));
}

TEST(GitConfig, NamesWhatDiffers) {
  const auto before =
      parse_git_config("[alias]\n st = status\n co = checkout\n[core]\nbare=true\n");
  const auto after = parse_git_config("[alias]\n st = !sh\n up = pull\n[core]\nbare=false\n");
  EXPECT_EQ(differing_settings(*before, *after, {"alias.*"}),
            (std::vector<std::string>{"alias.co", "alias.st", "alias.up"}));
}

TEST(Attributes, BindingLinesAreFound) {
  EXPECT_EQ(binding_lines("*.c text\n# filter=x\n*.bin filter=lfs\n[attr]foo -text\n*.x diff=p"),
            (std::vector<std::string>{"*.bin filter=lfs", "[attr]foo -text", "*.x diff=p"}));
}

}  // namespace
}  // namespace glovebox::workspace
