// Policies through the command line: what a document says is what the box gets.
#include "support/box_test.h"

#include <filesystem>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Policies : public BoxTest {
 protected:
  std::string policy(const std::string& text, const std::string& name = "policy.yaml") {
    return make_file(name, text);
  }
};

TEST_P(Policies, GrantsAndDenialsOfADocumentHold) {
  const std::string tree = make_tree("tree");
  make_tree("tree/private");
  const std::string file = policy("version: 1\nfs:\n  read: [" + tree + "]\n  deny: [" + tree +
                                  "/private]\nenv: [MODE=fast]\nwall: 30s\n");
  EXPECT_THAT(probe({"--policy", file}, {"read", tree + "/old"}), ended_with(0));
  EXPECT_THAT(probe({"--policy", file}, {"write", tree + "/old"}), ended_with(EROFS));
  EXPECT_THAT(probe({"--policy", file}, {"read", tree + "/private/old"}),
              refused_with(Errnos{EACCES, ENOENT}));
  EXPECT_THAT(probe({"--policy", file}, {"env"}).out, HasSubstr("MODE=fast"));
}

TEST_P(Policies, NothingHandedInReopensADenial) {
  const std::string tree = make_tree("tree");
  const std::string inner = make_tree("tree/inner");
  const std::string file = policy("version: 1\nfs:\n  deny: [" + tree + "]\n");
  EXPECT_THAT(probe({"--read", inner}, {"read", inner + "/old"}), ended_with(0));
  EXPECT_THAT(probe({"--policy", file, "--read", inner}, {"read", inner + "/old"}),
              refused_with(Errnos{EACCES, ENOENT}));
  EXPECT_THAT(probe({"--policy", file, "-w", inner + ":rw"}, {"read", inner + "/old"}),
              testing::Not(ended_with(0)));
  const std::string link = scratch() + "/link";
  fs::create_directory_symlink(inner, link);
  EXPECT_THAT(probe({"--policy", file, "--read", link}, {"read", inner + "/old"}),
              refused_with(Errnos{EACCES, ENOENT}))
      << "nor through a link";
}

TEST_P(Policies, PatternsCoverWhatMatches) {
  const std::string tree = make_tree("tree");
  const std::string key = make_file("tree/host.key", "secret");
  const std::string file =
      policy("version: 1\nfs:\n  read: [" + tree + "]\n  deny: ['" + tree + "/**/*.key']\n");
  EXPECT_THAT(probe({"--policy", file}, {"read", key}), refused_with(Errnos{EACCES}));
  EXPECT_THAT(probe({"--policy", file}, {"read", tree + "/old"}), ended_with(0));
}

TEST_P(Policies, SmallerBudgetsWin) {
  const std::string file = policy("version: 1\nwall: 300ms\n");
  EXPECT_THAT(probe({"--policy", file, "--wall", "1h"}, {"sleep"}), ended_by_limit("wall"));
}

TEST_P(Policies, OneSandboxOfSeveralIsNamed) {
  const std::string file = policy(
      "version: 1\nsandboxes:\n  one: {env: [WHO=one]}\n  two: {extends: one, env: [ALSO=two]}\n");
  EXPECT_THAT(probe({"--policy", file + "#two"}, {"env"}).out, HasSubstr("ALSO=two"));
  EXPECT_THAT(probe({"--policy", file + "#two"}, {"env"}).out, HasSubstr("WHO=one"));
  EXPECT_THAT(run({"--policy", file + "#three"}, {"true"}), refused_to_start("three"));
}

TEST_P(Policies, ABadDocumentRunsNothing) {
  const std::string file = policy("version: 1\nfs: {raed: [/srv]}\n");
  const std::string canary = scratch() + "/ran";
  EXPECT_THAT(run({"--policy", file, "-w", scratch() + ":rw"}, {"/usr/bin/touch", canary}),
              refused_to_start("did you mean 'read'"));
  EXPECT_FALSE(fs::exists(canary));
  EXPECT_THAT(run({"--policy", "no-such-template"}, {"true"}),
              refused_to_start("no-such-template"));
}

TEST_P(Policies, ADigestIsAPrecondition) {
  const std::string file = policy("version: 1\nwall: 30s\n");
  const Outcome shown = glovebox({"policy", "show", file});
  const std::string digest = shown.out.substr(shown.out.find("sha256:"), 7 + 64);
  EXPECT_THAT(run({"--policy", file, "--if-policy", digest}, {"true"}), ended_with(0));
  policy("version: 1\nwall: 31s\n");
  EXPECT_THAT(run({"--policy", file, "--if-policy", digest}, {"true"}),
              refused_to_start("sha256:"));
  EXPECT_THAT(run({"--if-policy", digest}, {"true"}), refused_to_start("needs --policy"));
}

TEST_P(Policies, TheReportNamesPolicyAndTerms) {
  const std::string file = policy("version: 1\nwall: 30s\n");
  const Outcome outcome = run({"--policy", file, "--read", scratch()}, {"true"});
  const auto& report = outcome.report.as_object();
  EXPECT_EQ(report.at("policy").at("name").as_string(), file);
  EXPECT_THAT(std::string(report.at("policy").at("digest").as_string()), HasSubstr("sha256:"));
  EXPECT_EQ(report.at("authority").as_array().size(), 2u);
}

TEST_P(Policies, TheCommandsAnswer) {
  EXPECT_THAT(glovebox({"policy", "list"}).out, HasSubstr("agent"));
  EXPECT_THAT(glovebox({"policy", "check", "agent", "python"}), ended_with(0));
  const std::string bad = policy("version: 1\nwall: soon\nfoo: 1\n", "bad.yaml");
  const Outcome checked = glovebox({"policy", "check", bad});
  EXPECT_THAT(checked, ended_with(1));
  EXPECT_THAT(checked.err, HasSubstr("bad.yaml:2:7"));
  EXPECT_THAT(checked.err, HasSubstr("bad.yaml:3:1"));

  const std::string file = policy("version: 1\nfs: {read: [/srv], deny: [/srv/key]}\n");
  const Outcome allowed = glovebox({"policy", "explain", file, "--read", "/srv/x"});
  EXPECT_THAT(allowed, ended_with(0));
  EXPECT_THAT(allowed.out, HasSubstr("policy.yaml:2"));
  const Outcome denied = glovebox({"policy", "explain", file, "--read", "/srv/key"});
  EXPECT_THAT(denied, ended_with(1));
  EXPECT_THAT(glovebox({"policy", "explain", file, "--connect", "a.example:443"}).out,
              HasSubstr("grant"));

  EXPECT_THAT(glovebox({"policy", "diff", file, file}), ended_with(0));
  EXPECT_THAT(glovebox({"policy", "diff", "deny-all", file}).out, HasSubstr("read=/srv"));
  for (const char* format : {"yaml", "json"}) {
    const Outcome shown = glovebox({"policy", "show", file, "--format", format});
    const std::string again = policy(shown.out, std::string("again.") + format);
    EXPECT_THAT(glovebox({"policy", "diff", file, again}), ended_with(0)) << format;
    EXPECT_THAT(glovebox({"policy", "diff", again, file}), ended_with(0)) << format;
  }
}

TEST_P(Policies, EveryTemplateThatNeedsNoNetworkRuns) {
  for (const char* name : {"deny-all", "readonly", "python", "node", "build", "agent"}) {
    EXPECT_THAT(run({"--policy", name}, {"true"}), ended_with(0)) << name;
  }
}

BOX_TEST_TIERS(Policies);

}  // namespace
}  // namespace glovebox::test
