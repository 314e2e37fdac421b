#include "egress/rules/egress_rules.h"

#include "authority/terms.h"

#include <gtest/gtest.h>

namespace glovebox::egress {
namespace {

using authority::AuthoritySet;
using authority::Effect;
using Kind = ConnectVerdict::Kind;

AuthoritySet rules(std::initializer_list<const char*> allowed,
                   std::initializer_list<const char*> denied = {}) {
  std::vector<authority::Rule> list;
  for (const char* term : allowed) list.push_back({Effect::Allow, *authority::parse_term(term)});
  for (const char* term : denied) list.push_back({Effect::Deny, *authority::parse_term(term)});
  return *AuthoritySet::from_rules(list);
}

Endpoint at(const char* address, std::uint16_t port = 443) {
  return {*authority::IpNetwork::parse(address), port};
}

Kind decide(const AuthoritySet& set, const Endpoint& to, std::vector<std::string> names = {}) {
  return decide_connect(set, to, names).kind;
}

bool looks_up(const AuthoritySet& set, const std::string& name) {
  return may_look_up(set, telling_ports(set), name);
}

TEST(MayWait, NoNumberOfGreedyBoxesTakesAll) {
  constexpr std::size_t kMost = 128;
  std::size_t all = 0;
  for (int box = 0; box < 5; ++box) {
    std::size_t own = 0;
    while (may_wait(own, all, kMost)) ++own, ++all;
    EXPECT_GT(own, 0U) << box;
  }
  EXPECT_LT(all, kMost);
  std::size_t alone = 0;
  while (may_wait(alone, alone, 10'000)) ++alone;
  EXPECT_EQ(alone, 64U);
}

TEST(DecideConnect, ADeniedNameIsDeniedWhereItsAddressIsGranted) {
  const AuthoritySet set =
      rules({"connect=0.0.0.0/0:443", "connect=a.example:443"}, {"connect=evil.example:443"});
  EXPECT_EQ(decide(set, at("8.8.8.8")), Kind::Outside);
  EXPECT_EQ(decide(set, at("8.8.8.8"), {"other.example"}), Kind::Outside);
  EXPECT_EQ(decide(set, at("8.8.8.8"), {"evil.example"}), Kind::Refused);
  EXPECT_EQ(decide(set, at("8.8.8.8"), {"evil.example", "a.example"}), Kind::Outside);
}

TEST(DecideConnect, NothingGrantedIsNothingAllowed) {
  EXPECT_EQ(decide({}, at("8.8.8.8")), Kind::Refused);
  EXPECT_EQ(decide({}, at("8.8.8.8"), {"a.example"}), Kind::Refused);
}

TEST(DecideConnect, NameGrantsReachWhatTheNameGaveAndItsPorts) {
  const AuthoritySet set = rules({"connect=a.example:443"});
  EXPECT_EQ(decide(set, at("8.8.8.8"), {"a.example"}), Kind::Outside);
  EXPECT_EQ(decide_connect(set, at("8.8.8.8"), std::vector<std::string>{"a.example"}).name,
            "a.example");
  EXPECT_EQ(decide(set, at("8.8.8.8", 80), {"a.example"}), Kind::Refused);
  EXPECT_EQ(decide(set, at("8.8.8.8")), Kind::Refused) << "typed in, it is no name";
  EXPECT_EQ(decide(set, at("8.8.8.8"), {"b.example"}), Kind::Refused);
  EXPECT_EQ(decide(set, at("8.8.8.8"), {"b.example", "a.example"}), Kind::Outside);
}

TEST(DecideConnect, NamesReachPublicAddressesAlone) {
  const AuthoritySet set = rules({"connect=*:*"});
  for (const char* address : {"127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "0.0.0.0",
                              "fd00:ec2::254", "fe80::1", "::1", "64:ff9b::7f00:1"}) {
    const AuthoritySet by_name = rules({"connect=a.example:443"});
    EXPECT_EQ(decide(by_name, at(address), {"a.example"}), Kind::Refused) << address;
    const AuthoritySet by_any_name = rules({"connect=*.:443"});
    EXPECT_EQ(decide(by_any_name, at(address), {"a.example"}), Kind::Refused) << address;
  }
  EXPECT_EQ(decide(set, at("169.254.169.254")), Kind::Refused) << "nor does every host";
}

TEST(DecideConnect, SpecialPlacesNeedARuleOfTheirOwn) {
  EXPECT_EQ(decide(rules({"connect=0.0.0.0/0:*"}), at("169.254.169.254")), Kind::Refused);
  EXPECT_EQ(decide(rules({"connect=169.254.169.254:443"}), at("169.254.169.254")), Kind::Outside);
  EXPECT_EQ(decide(rules({"connect=169.254.0.0/16:443"}), at("169.254.169.254")), Kind::Outside);
  EXPECT_EQ(decide(rules({"connect=0.0.0.0/0:*"}), at("127.0.0.1")), Kind::Inside);
  EXPECT_EQ(decide(rules({"connect=*:*"}), at("127.0.0.1")), Kind::Inside);
  EXPECT_EQ(decide(rules({"connect=127.50.0.0/16:*"}), at("127.50.0.1")), Kind::Outside);
  EXPECT_EQ(decide(rules({"connect=127.50.0.0/16:*"}), at("127.0.0.1")), Kind::Inside);
  EXPECT_EQ(decide(rules({"connect=[::1]:443"}), at("::1")), Kind::Outside);
  EXPECT_EQ(decide(rules({"connect=0.0.0.0:443"}), at("0.0.0.0")), Kind::Inside) << "never outside";
}

TEST(DecideConnect, OwnLoopbackIsInside) {
  const AuthoritySet set = rules({"connect=a.example:443"});
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::"}) {
    EXPECT_EQ(decide(set, at(address)), Kind::Inside) << address;
    EXPECT_EQ(decide(set, at(address, 0)), Kind::Inside) << address;
  }
}

TEST(DecideConnect, DenialOfAnAddressHoldsUnderEveryName) {
  const AuthoritySet set = rules({"connect=*.:443"}, {"connect=8.8.0.0/16:*"});
  EXPECT_EQ(decide(set, at("8.8.8.8"), {"a.example"}), Kind::Refused);
  EXPECT_EQ(decide(set, at("9.9.9.9"), {"a.example"}), Kind::Outside);
}

TEST(DecideConnect, RefusalNamesWhatIsMissing) {
  const AuthoritySet set = rules({"connect=a.example:443"});
  EXPECT_EQ(decide_connect(set, at("8.8.8.8", 80), {}).missing, "connect=8.8.8.8:80");
  const std::vector<std::string> names{"b.example"};
  EXPECT_EQ(decide_connect(set, at("8.8.8.8", 80), names).missing, "connect=b.example:80");
  EXPECT_EQ(decide_connect(set, at("2001:db8::1", 80), {}).missing, "connect=[2001:db8::1]:80");
}

TEST(MayLookUp, OnlyNamesThatAGrantNeeds) {
  const AuthoritySet set =
      rules({"connect=a.example:443", "connect=*.b.example:443", "resolve=c.example"});
  EXPECT_TRUE(looks_up(set, "a.example"));
  EXPECT_TRUE(looks_up(set, "x.y.b.example"));
  EXPECT_TRUE(looks_up(set, "c.example"));
  for (const char* name : {"b.example", "d.example", "example", "", "*", "*.b.example",
                           "a.example.", "127.1", "0x7f.1", "a_b.b.example", "-a.b.example"}) {
    if (std::string(name) == "a.example.") continue;  // the reader has taken the dot away
    EXPECT_FALSE(looks_up(set, name)) << name;
  }
  EXPECT_FALSE(looks_up(set, std::string("a.example\0.b.example", 20)));
  EXPECT_FALSE(looks_up({}, "a.example")) << "an empty list allows nothing";
}

TEST(MayLookUp, DenialsCount) {
  EXPECT_FALSE(looks_up(rules({"connect=*.:443"}, {"connect=a.example:*"}), "a.example"));
  EXPECT_TRUE(looks_up(rules({"connect=*.:1-100"}, {"connect=a.example:1-50"}), "a.example"));
  EXPECT_FALSE(looks_up(rules({"connect=*.:443"}, {"resolve=a.example"}), "a.example"));
  EXPECT_FALSE(looks_up(rules({"connect=8.8.8.8:443"}), "a.example"));
}

TEST(FindPublished, PortsGoWhereTheCallerSaid) {
  const std::vector<plan::Publication> published{
      {*authority::IpNetwork::parse("127.0.0.1"), 8080, 80}};
  EXPECT_EQ(find_published({}, published, at("0.0.0.0", 80)), at("127.0.0.1", 8080));
  EXPECT_EQ(find_published({}, published, at("127.0.0.1", 80)), at("127.0.0.1", 8080));
  EXPECT_EQ(find_published({}, published, at("::", 80)), at("127.0.0.1", 8080));
  EXPECT_EQ(find_published({}, published, at("0.0.0.0", 81)), std::nullopt);
  const AuthoritySet set = rules({"listen=0.0.0.0:9000", "listen=127.0.0.1:7000"});
  EXPECT_EQ(find_published(set, {}, at("0.0.0.0", 9000)), at("0.0.0.0", 9000));
  EXPECT_EQ(find_published(set, {}, at("127.0.0.1", 7000)), std::nullopt) << "that stays inside";
  EXPECT_EQ(find_published(set, {}, at("0.0.0.0", 7000)), std::nullopt);
}

}  // namespace
}  // namespace glovebox::egress
