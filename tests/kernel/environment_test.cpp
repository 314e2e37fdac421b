// The environment starts from nothing: five names, and what was granted.
#include "support/box_test.h"

#include <algorithm>

namespace glovebox::test {
namespace {

class Environment : public BoxTest {
 protected:
  Words names(const Words& options, const Settings& settings = {}) {
    const Outcome outcome = probe(options, {"env"}, settings);
    EXPECT_THAT(outcome, ended_with(0));
    Words found;
    for (const std::string& entry : lines_after(outcome.out, "env ")) {
      found.push_back(entry.substr(0, entry.find('=')));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST_P(Environment, HoldsFiveNames) {
  EXPECT_EQ(names({}), (Words{"HOME", "LANG", "PATH", "TERM", "TMPDIR"}));
}

TEST_P(Environment, CallersSecretsStayOutside) {
  Settings settings;
  settings.environment = {"PATH=/evil",
                          "HOME=/root",
                          "AWS_SECRET_ACCESS_KEY=canary",
                          "SSH_AUTH_SOCK=/canary",
                          "LD_PRELOAD=/canary.so",
                          "LD_LIBRARY_PATH=/canary",
                          "BASH_ENV=/canary",
                          "GLIBC_TUNABLES=canary"};
  const Outcome outcome = probe({}, {"env"}, settings);
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("canary")));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("evil")));
  EXPECT_THAT(outcome.out, testing::HasSubstr("env HOME=/home/box"));
  EXPECT_THAT(outcome.out, testing::HasSubstr("env TMPDIR=/tmp"));
}

TEST_P(Environment, InitDoesNotHoldThemEither) {
  Settings settings;
  settings.environment = {"SECRET=canary"};
  EXPECT_THAT(probe({}, {"read", "/proc/1/environ"}, settings),
              refused_with(Errnos{EACCES, EPERM}));
}

TEST_P(Environment, GrantsAreSeen) {
  Settings settings;
  settings.environment = {"COPIED=from the caller", "OTHER=not"};
  const Outcome outcome =
      probe({"--env", "COPIED", "--env", "SET=a=b c", "--env", "EMPTY="}, {"env"}, settings);
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_THAT(lines_after(outcome.out, "env "),
              testing::IsSupersetOf({"COPIED=from the caller", "SET=a=b c", "EMPTY="}));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("OTHER")));
}

TEST_P(Environment, GrantReplacesADefaultOnce) {
  const Outcome outcome = probe({"--env", "PATH=/nowhere"}, {"env"});
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_EQ(lines_after(outcome.out, "env PATH="), Words{"/nowhere"});
}

TEST_P(Environment, NamesThatAreNoneAreRefused) {
  EXPECT_THAT(probe({"--env", "=value"}, {"env"}), refused_to_start(""));
  EXPECT_THAT(probe({"--env", ""}, {"env"}), refused_to_start(""));
}

TEST_P(Environment, NameThatTheCallerLacksIsSaid) {
  const Outcome outcome = probe({"--env", "GLOVEBOX_NOT_SET_ANYWHERE"}, {"env"});
  EXPECT_THAT(outcome, refused_to_start("GLOVEBOX_NOT_SET_ANYWHERE"));
}

BOX_TEST_TIERS(Environment);

}  // namespace
}  // namespace glovebox::test
