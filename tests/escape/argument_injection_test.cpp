// Class 37: words of the command that the launcher takes for its own (flatpak, CVE-2024-32462).
// Tried: a command named like an option, options after the command, option values that look like
// options, paths with a mode in their name.
// Canary: a secret file that such an option would have handed in.
#include "support/box_test.h"

#include <filesystem>

namespace glovebox::test {
namespace {

class ArgumentInjection : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    if (IsSkipped()) return;
    secret_ = make_file("secret", "outside-canary\n");
  }
  std::string secret_;
};

TEST_P(ArgumentInjection, WordsAfterTheCommandAreData) {
  const Outcome outcome = run({}, {"/bin/cat", "--read", secret_, secret_});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("outside-canary")));
  EXPECT_EQ(run({}, {"/bin/echo", "--bind", "/", "/", "--write", "/"}).out,
            "--bind / / --write /\n");
}

TEST_P(ArgumentInjection, CommandThatLooksLikeAnOption) {
  for (const char* name :
       {"--bind", "--read", "--write=/", "-w/", "--waive=landlock", "--", "--help"}) {
    const Outcome outcome = run({}, {name, "/", "/"});
    EXPECT_THAT(outcome, ended_with(127)) << name;
    EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("Usage"))) << name;
  }
}

TEST_P(ArgumentInjection, WithoutTheDashesTheCommandStillEndsTheOptions) {
  // `glovebox run /bin/cat --read SECRET SECRET`: everything after the command is the command's.
  const Outcome outcome = glovebox({"run", "/bin/cat", "--read", secret_, secret_});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("outside-canary")));
}

TEST_P(ArgumentInjection, ValuesAreNotSplit) {
  const std::string work = make_tree("work");
  const std::string odd = make_tree("work,ro=x --read " + std::string("y"));
  EXPECT_THAT(run({"--workspace", odd + ":ro"}, {"/bin/cat", "old"}), ended_with(0));
  EXPECT_THAT(run({"--env", "X=1 --read " + secret_}, {"/bin/cat", secret_}), ended_with(1));
  EXPECT_THAT(run({"--hostname", "a --read " + secret_}, {"true"}), refused_to_start(""));
  EXPECT_THAT(run({"--workspace", work + ":ro:rw"}, {"/usr/bin/touch", "new"}),
              testing::Not(ended_with(0)));
  EXPECT_FALSE(std::filesystem::exists(work + "/new"));
}

TEST_P(ArgumentInjection, VariablesOfTheCallerAreNotOptions) {
  Settings settings;
  settings.environment = {"GLOVEBOX_READ=" + secret_, "GLOVEBOX_OPTIONS=--read " + secret_,
                          "GLOVEBOX_WAIVE=landlock"};
  EXPECT_THAT(run({}, {"/bin/cat", secret_}, settings), ended_with(1));
}

TEST_P(ArgumentInjection, RealOptionWorks) {
  const Outcome outcome = run({"--read", secret_}, {"/bin/cat", secret_});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.out, "outside-canary\n");
}

BOX_TEST_TIERS(ArgumentInjection);

}  // namespace
}  // namespace glovebox::test
