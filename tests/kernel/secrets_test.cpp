// Secrets: handed in by name as files that can only be read, and nowhere else.
#include "support/box_test.h"

#include <boost/json/serialize.hpp>

#include <sys/stat.h>

namespace glovebox::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Secrets : public BoxTest {
 protected:
  void keep(const std::string& name, const std::string& value) {
    Settings settings;
    settings.input = value;
    ASSERT_THAT(glovebox({"secret", "set", name}, settings), ended_with(0));
  }
  Outcome shell(const Words& options, const std::string& words) {
    return run(options, {"/bin/sh", "-c", words});
  }
};

TEST_P(Secrets, OneThatIsAllowedCanBeReadAndNotChanged) {
  keep("api-token", "s3cret");
  const Outcome outcome = shell({"--allow", "secret=api-token"},
                                "cat /run/secrets/api-token; ls /run/secrets; "
                                "echo x >/run/secrets/api-token || rm /run/secrets/api-token");
  EXPECT_NE(outcome.code, 0);
  EXPECT_EQ(outcome.out, "s3cretapi-token\n");
  EXPECT_EQ(shell({"--allow", "secret=api-token"}, "cat /run/secrets/api-token").out, "s3cret");
}

TEST_P(Secrets, OthersAreNotThere) {
  keep("one", "first");
  keep("two", "second");
  const Outcome outcome =
      shell({"--allow", "secret=one"}, "ls /run/secrets; cat /run/secrets/two; env");
  EXPECT_THAT(outcome.out, testing::StartsWith("one\n"));
  EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("second")));
  EXPECT_THAT(shell({}, "ls /run/secrets"), Not(ended_with(0)));
}

TEST_P(Secrets, TheStoreIsInNoTreeThatIsHandedIn) {
  keep("one", "very-s3cret");
  const std::string store = scratch() + "/.state/secrets";
  make_file("plain", "may be seen");
  const std::string words = "cat " + scratch() + "/plain " + store + "/one";
  for (const Words& options : std::vector<Words>{{"--read", scratch()},
                                                 {"--write", scratch()},
                                                 {"-w", scratch() + ":ro"},
                                                 {"-w", scratch() + ":rw"}}) {
    const Outcome outcome = shell(options, words);
    EXPECT_NE(outcome.code, 0) << options.back();
    EXPECT_EQ(outcome.out, "may be seen") << options.back();
  }
}

TEST_P(Secrets, AMissingOneIsRefusedByName) {
  const Outcome outcome = shell({"--allow", "secret=nowhere"}, "true");
  EXPECT_THAT(outcome, ended_with(125));
  EXPECT_THAT(outcome.err, HasSubstr("no secret 'nowhere'"));
}

TEST_P(Secrets, OneThatOthersCouldReadIsRefused) {
  keep("token", "x");
  ASSERT_EQ(chmod((scratch() + "/.state/secrets/token").c_str(), 0644), 0);
  EXPECT_THAT(shell({"--allow", "secret=token"}, "true"), ended_with(125));
}

TEST_P(Secrets, ValuesAreInNoPlanAndNoReport) {
  keep("token", "very-s3cret");
  const Outcome explained = glovebox({"explain", "--allow", "secret=token", "--", "true"});
  EXPECT_THAT(explained, ended_with(0));
  EXPECT_THAT(explained.out, HasSubstr("secret=token"));
  EXPECT_THAT(explained.out, Not(HasSubstr("very-s3cret")));
  const Outcome outcome = shell({"--allow", "secret=token"}, "true");
  EXPECT_THAT(boost::json::serialize(outcome.report), Not(HasSubstr("very-s3cret")));
}

TEST_P(Secrets, CanBeListedAndRemoved) {
  keep("b", "1");
  keep("a", "2");
  EXPECT_EQ(glovebox({"secret", "list"}).out, "a\nb\n");
  EXPECT_THAT(glovebox({"secret", "rm", "a"}), ended_with(0));
  EXPECT_EQ(glovebox({"secret", "list"}).out, "b\n");
  EXPECT_THAT(glovebox({"secret", "rm", "a"}), ended_with(125));
  EXPECT_THAT(glovebox({"secret", "set", "../x"}), ended_with(125));
}

TEST_P(Secrets, APolicyNamesThem) {
  keep("token", "x1");
  const std::string file = make_file("policy.yaml", "version: 1\nsecrets:\n  allow: [token]\n");
  EXPECT_EQ(shell({"--policy", file}, "cat /run/secrets/token").out, "x1");
}

BOX_TEST_TIERS(Secrets);

}  // namespace
}  // namespace glovebox::test
