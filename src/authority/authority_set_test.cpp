#include "authority/authority_set.h"

#include "authority/terms.h"

#include <gtest/gtest.h>

#include <sstream>

namespace glovebox::authority {
namespace {

// A source as lines of text: "allow read=/a; deny read=/a/b".
AuthoritySet source(const std::string& text) {
  std::vector<Rule> rules;
  std::istringstream lines(text);
  for (std::string effect, term; lines >> effect >> term;) {
    if (term.ends_with(';')) term.pop_back();
    auto capability = parse_term(term);
    EXPECT_TRUE(capability) << term;
    const Effect verdict = effect == "allow"  ? Effect::Allow
                           : effect == "deny" ? Effect::Deny
                                              : Effect::Silent;
    rules.push_back({verdict, *capability});
  }
  return *AuthoritySet::from_rules(rules);
}

AuthoritySet grants(std::initializer_list<const char*> terms) {
  std::vector<Capability> capabilities;
  for (const char* term : terms) capabilities.push_back(*parse_term(term));
  return *AuthoritySet::granting(capabilities);
}

bool allows(const AuthoritySet& set, const char* term) {
  return set.decide(*parse_term(term)).effect == Effect::Allow;
}

TEST(AuthoritySet, EmptyGrantsNothingAndCoversOnlyTheEmpty) {
  const AuthoritySet nothing;
  EXPECT_TRUE(nothing.empty());
  EXPECT_TRUE(nothing.covers(nothing));
  for (const char* term : {"read=/", "connect=*:*", "listen=*:80", "unix=/x", "resolve=*",
                           "import=*", "env=A", "env=A=1", "secret=a", "subprocess=a", "clock",
                           "random", "channel=a", "exec=/", "write=/"}) {
    EXPECT_FALSE(nothing.covers(grants({term}))) << term;
    EXPECT_FALSE(allows(nothing, term)) << term;
    EXPECT_TRUE(grants({term}).covers(nothing)) << term;
  }
  EXPECT_TRUE(nothing.covers(source("deny read=/")));
  EXPECT_TRUE(source("deny read=/").grants_nothing());
}

TEST(AuthoritySet, PathsReachByComponent) {
  const AuthoritySet set = grants({"read=/a"});
  EXPECT_TRUE(allows(set, "read=/a"));
  EXPECT_TRUE(allows(set, "read=/a/b"));
  EXPECT_FALSE(allows(set, "read=/ab"));
  EXPECT_FALSE(allows(set, "read=/"));
  EXPECT_FALSE(set.covers(grants({"read=/ab"})));
  EXPECT_TRUE(grants({"read=/"}).covers(set));
}

TEST(AuthoritySet, AGrantOnOneFileIsThatFile) {
  const AuthoritySet set = grants({"read=/etc/hosts"});
  EXPECT_TRUE(allows(set, "read=/etc/hosts"));
  EXPECT_FALSE(allows(set, "read=/etc"));
  EXPECT_FALSE(allows(set, "read=/etc/hosts.deny"));
}

TEST(AuthoritySet, WritingImpliesReading) {
  EXPECT_TRUE(allows(grants({"write=/a"}), "read=/a/b"));
  EXPECT_TRUE(grants({"write=/a"}).covers(grants({"read=/a"})));
  EXPECT_FALSE(grants({"read=/a"}).covers(grants({"write=/a"})));
  EXPECT_FALSE(allows(grants({"write=/a"}), "exec=/a"));
  EXPECT_EQ(grants({"read=/a", "write=/a"}), grants({"write=/a"}));
}

TEST(AuthoritySet, DenyingReadingDeniesWriting) {
  const AuthoritySet set = source("allow write=/a; deny read=/a/b; deny write=/a/c");
  EXPECT_FALSE(allows(set, "write=/a/b"));
  EXPECT_FALSE(allows(set, "read=/a/b"));
  EXPECT_FALSE(allows(set, "write=/a/c"));
  EXPECT_TRUE(allows(set, "read=/a/c"));
}

// Silence about writing must not let another source grant it where reading is denied.
TEST(AuthoritySet, WhereReadingIsDeniedWritingIs) {
  const AuthoritySet set = source("deny read=/a; silent write=/a/b");
  EXPECT_EQ(set, source("deny read=/a"));
  EXPECT_FALSE(allows(set.unite(grants({"write=/a/b"})), "write=/a/b"));
}

TEST(AuthoritySet, TheMostSpecificRuleOfASourceDecides) {
  const AuthoritySet set = source("allow read=/a; deny read=/a/b; allow read=/a/b/c");
  EXPECT_TRUE(allows(set, "read=/a/x"));
  EXPECT_FALSE(allows(set, "read=/a/b"));
  EXPECT_FALSE(allows(set, "read=/a/b/x"));
  EXPECT_TRUE(allows(set, "read=/a/b/c/d"));
  EXPECT_EQ(set, source("allow read=/a/b/c; deny read=/a/b; allow read=/a"));
}

TEST(AuthoritySet, ATieGoesToDeny) {
  EXPECT_EQ(source("allow read=/a; deny read=/a"), source("deny read=/a"));
  EXPECT_EQ(source("deny read=/a; allow write=/a"), source("deny read=/a"));
  EXPECT_FALSE(allows(source("allow clock; deny clock"), "clock"));
  EXPECT_FALSE(
      allows(source("allow connect=a.com:80-100; deny connect=a.com:90-110"), "connect=a.com:95"));
}

TEST(AuthoritySet, ADenialOfOneSourceIsFinalForAll) {
  const AuthoritySet policy = source("allow read=/a; deny read=/a/b; deny connect=*.evil.com:*");
  const AuthoritySet handed = grants({"read=/a/b/c", "connect=x.evil.com:443", "read=/d"});
  const AuthoritySet both = policy.unite(handed);
  EXPECT_FALSE(allows(both, "read=/a/b/c"));
  EXPECT_FALSE(allows(both, "connect=x.evil.com:443"));
  EXPECT_TRUE(allows(both, "read=/d"));
  EXPECT_TRUE(allows(both, "read=/a/x"));
  EXPECT_EQ(both, handed.unite(policy));
}

TEST(AuthoritySet, WhatASourceReopensItselfStaysOpen) {
  const AuthoritySet policy = source("deny read=/a; allow read=/a/b");
  EXPECT_TRUE(allows(policy.unite(grants({"read=/a"})), "read=/a/b"));
  EXPECT_FALSE(allows(policy.unite(grants({"read=/a"})), "read=/a/c"));
}

TEST(AuthoritySet, AttenuatingKeepsDenials) {
  const AuthoritySet held = source("allow read=/a; deny read=/a/b");
  const AuthoritySet passed_on = held.attenuate(grants({"read=/a"}));
  EXPECT_EQ(passed_on, held);
  EXPECT_FALSE(allows(passed_on.unite(grants({"read=/a/b"})), "read=/a/b"));
}

TEST(AuthoritySet, AttenuatingTakesTheCommonPart) {
  EXPECT_EQ(grants({"write=/a", "connect=*.a.com:1-100", "import=a.*"})
                .attenuate(grants({"read=/a/b", "read=/c", "connect=x.a.com:80-443", "import=a"})),
            grants({"read=/a/b", "connect=x.a.com:80-100"}));
}

TEST(AuthoritySet, DomainPatternsReachNamesBelow) {
  const AuthoritySet set = grants({"connect=*.example.com:443"});
  EXPECT_TRUE(allows(set, "connect=a.example.com:443"));
  EXPECT_TRUE(allows(set, "connect=b.a.example.com:443"));
  EXPECT_TRUE(allows(set, "connect=A.EXAMPLE.com.:443"));
  EXPECT_FALSE(allows(set, "connect=example.com:443"));
  EXPECT_FALSE(allows(set, "connect=badexample.com:443"));
  EXPECT_FALSE(allows(set, "connect=a.example.com.evil.org:443"));
  EXPECT_FALSE(allows(set, "connect=a.example.com:80"));
  EXPECT_FALSE(grants({"connect=example.com:443"}).covers(set));
}

TEST(AuthoritySet, NamesAndAddressesAreApart) {
  EXPECT_FALSE(allows(grants({"connect=*.:*"}), "connect=127.0.0.1:80"));
  EXPECT_TRUE(allows(grants({"connect=*.:*"}), "connect=localhost:80"));
  EXPECT_FALSE(allows(grants({"connect=0.0.0.0/0:*"}), "connect=localhost:80"));
  EXPECT_TRUE(allows(grants({"connect=*:*"}), "connect=127.0.0.1:80"));
  EXPECT_TRUE(allows(grants({"connect=*:*"}), "connect=[::1]:80"));
}

TEST(AuthoritySet, NetworksNestByPrefix) {
  const AuthoritySet set =
      source("allow connect=10.0.0.0/8:*; deny connect=10.1.0.0/16:*; allow connect=10.1.2.3:22");
  EXPECT_TRUE(allows(set, "connect=10.2.0.1:80"));
  EXPECT_FALSE(allows(set, "connect=10.1.2.4:22"));
  EXPECT_TRUE(allows(set, "connect=10.1.2.3:22"));
  EXPECT_FALSE(allows(set, "connect=10.1.2.3:23"));
  EXPECT_FALSE(allows(set, "connect=11.0.0.1:80"));
}

TEST(AuthoritySet, MappedAddressesCannotSlipPastADenial) {
  const AuthoritySet set = source("allow connect=*:*; deny connect=169.254.0.0/16:*");
  EXPECT_FALSE(allows(set, "connect=169.254.169.254:80"));
  EXPECT_FALSE(allows(set, "connect=[::ffff:169.254.169.254]:80"));
  EXPECT_FALSE(allows(grants({"connect=[::/0]:*"}), "connect=[::ffff:10.0.0.1]:80"));
}

TEST(AuthoritySet, PortRangesJoinAndNarrowerOnesWin) {
  EXPECT_EQ(grants({"connect=a.com:80", "connect=a.com:81"}), grants({"connect=a.com:80-81"}));
  EXPECT_TRUE(
      grants({"connect=a.com:1-80", "connect=a.com:81-65535"}).covers(grants({"connect=a.com:*"})));
  const AuthoritySet set = source("deny connect=a.com:*; allow connect=a.com:443");
  EXPECT_TRUE(allows(set, "connect=a.com:443"));
  EXPECT_FALSE(allows(set, "connect=a.com:442"));
  EXPECT_FALSE(allows(set, "connect=a.com:442-443"));
}

TEST(AuthoritySet, ImportsAreExact) {
  const AuthoritySet set = grants({"import=json", "import=numpy.*"});
  EXPECT_TRUE(allows(set, "import=json"));
  EXPECT_FALSE(allows(set, "import=json.decoder"));
  EXPECT_FALSE(allows(set, "import=jsonx"));
  EXPECT_TRUE(allows(set, "import=numpy.linalg.lapack"));
  EXPECT_FALSE(allows(set, "import=numpy"));
}

TEST(AuthoritySet, PassingAVariableOnIsNotChoosingItsValue) {
  EXPECT_FALSE(grants({"env=A"}).covers(grants({"env=A=1"})));
  EXPECT_FALSE(grants({"env=A=1"}).covers(grants({"env=A"})));
  EXPECT_FALSE(grants({"env=A=1"}).covers(grants({"env=A=12"})));
  EXPECT_EQ(grants({"env=A", "env=A=1"}).rules().size(), 2u);
  const AuthoritySet denied = source("deny env=A").unite(grants({"env=A", "env=A=1", "env=AB"}));
  EXPECT_FALSE(allows(denied, "env=A"));
  EXPECT_FALSE(allows(denied, "env=A=1"));
  EXPECT_TRUE(allows(denied, "env=AB"));
}

TEST(AuthoritySet, TheShellFormImpliesThePlainOne) {
  EXPECT_TRUE(grants({"subprocess_shell=git,make"}).covers(grants({"subprocess=git"})));
  EXPECT_FALSE(grants({"subprocess=git"}).covers(grants({"subprocess_shell=git"})));
  EXPECT_FALSE(grants({"subprocess=git"}).covers(grants({"subprocess=git,make"})));
  EXPECT_FALSE(allows(grants({"subprocess=git"}), "subprocess=git,make"));
  EXPECT_FALSE(allows(grants({"subprocess=make"}), "subprocess=git,make"));
}

TEST(AuthoritySet, BudgetsCombineToTheSmaller) {
  const AuthoritySet small = grants({"cpu=1s", "pids=10"});
  const AuthoritySet large = grants({"cpu=5s", "cpu=7s", "memory=100"});
  EXPECT_EQ(small.unite(large), grants({"cpu=1s", "pids=10", "memory=100"}));
  EXPECT_EQ(small.unite(large), small.attenuate(large));
  EXPECT_EQ(large.budget(BudgetKind::Cpu), 5000u);
  EXPECT_FALSE(small.covers(large));
  EXPECT_TRUE(AuthoritySet().covers(small));
  EXPECT_FALSE(small.covers(AuthoritySet())) << "no limit is more than any limit";
}

TEST(AuthoritySet, ABudgetCannotBeDenied) {
  const std::vector<Rule> rules{{Effect::Deny, *parse_term("cpu=1s")}};
  EXPECT_EQ(AuthoritySet::from_rules(rules).error().message,
            "deny cpu=1000ms: a budget is set, not denied (set a smaller one)");
}

TEST(AuthoritySet, MinusSaysWhatIsMissing) {
  const AuthoritySet asked = grants({"write=/a", "connect=a.com:80-90", "cpu=5s", "clock"});
  const AuthoritySet held = grants({"read=/", "connect=*.:85", "cpu=1s", "wall=9s", "clock"});
  EXPECT_EQ(to_text(asked.minus(held)),
            "allow write=/a\n"
            "allow connect=a.com:80-84\n"
            "allow connect=a.com:86-90\n"
            "cpu: asks for 5000ms, 1000ms is held\n"
            "wall: asks for no limit, 9000ms is held\n");
}

TEST(AuthoritySet, MinusLeavesOutWhatIsHeldBelow) {
  const Shortfall missing = grants({"read=/a"}).minus(grants({"read=/a/b"}));
  EXPECT_EQ(to_text(missing), "allow read=/a\nsilent read=/a/b\n");
  EXPECT_TRUE(allows(grants({"read=/a/b"}).unite(missing.grants), "read=/a/b"));
}

TEST(AuthoritySet, CoversLooksBelowAndDecideDoesNot) {
  const AuthoritySet set = source("allow read=/a; deny read=/a/b");
  EXPECT_TRUE(allows(set, "read=/a"));
  EXPECT_FALSE(set.covers(grants({"read=/a"})));
  EXPECT_TRUE(set.covers(source("allow read=/a; deny read=/a/b")));
  EXPECT_TRUE(set.covers(grants({"read=/a/c"})));
}

TEST(AuthoritySet, DecideNamesTheRule) {
  const AuthoritySet set = source("allow write=/a; deny write=/a/b; allow connect=*.a.com:1-100");
  const auto rule_for = [&](const char* term) {
    const Decision decision = set.decide(*parse_term(term));
    return decision.rule ? to_text(*decision.rule) : "none";
  };
  EXPECT_EQ(rule_for("read=/a/b/c"), "allow write=/a");
  EXPECT_EQ(rule_for("write=/a/b/c"), "deny write=/a/b");
  EXPECT_EQ(rule_for("connect=x.a.com:80"), "allow connect=*.a.com:1-100");
  EXPECT_EQ(rule_for("connect=x.a.com:80-200"), "none");
  EXPECT_EQ(rule_for("read=/b"), "none");
}

TEST(AuthoritySet, DecideOnABudgetNamesTheSmallerOne) {
  const AuthoritySet set = grants({"cpu=1s"});
  EXPECT_EQ(set.decide(*parse_term("cpu=2s")).effect, Effect::Deny);
  EXPECT_EQ(set.decide(*parse_term("cpu=1s")).effect, Effect::Allow);
  EXPECT_EQ(set.decide(*parse_term("wall=2s")).effect, Effect::Allow);
}

TEST(AuthoritySet, NormalFormPrintsInAFixedOrder) {
  const AuthoritySet set = grants({"cpu=1s", "read=/b", "connect=a.com:443", "write=/b/c",
                                   "read=/a", "read=/b/d", "import=json"});
  EXPECT_EQ(to_text(set),
            "allow read=/a\n"
            "allow read=/b\n"
            "allow write=/b/c\n"
            "allow connect=a.com:443\n"
            "allow import=json\n"
            "allow cpu=1000ms\n");
}

TEST(AuthoritySet, OneSourceIsBounded) {
  const std::vector<Rule> many(AuthoritySet::kMaxRules + 1, {Effect::Allow, Clock{}});
  EXPECT_EQ(AuthoritySet::from_rules(many).error().code, Code::Exhausted);
  std::vector<Capability> ports;
  for (unsigned i = 1; i <= AuthoritySet::kMaxPortRanges + 1; ++i) {
    ports.push_back(ConnectTCP{AnyHost{}, *PortRange::make(i, i)});
  }
  EXPECT_EQ(AuthoritySet::granting(ports).error().code, Code::Exhausted);
  ports.pop_back();
  EXPECT_TRUE(AuthoritySet::granting(ports));
}

}  // namespace
}  // namespace glovebox::authority
