#include "authority/json_codec.h"

#include "authority/terms.h"

#include <gtest/gtest.h>

#include <set>

namespace glovebox::authority {
namespace {

struct Pair {
  const char* term;
  const char* json;
};

constexpr Pair kPairs[] = {
    {"read=/srv/ü \"x\"", R"({"kind":"read_path","path":"/srv/ü \"x\""})"},
    {"write=/", R"({"kind":"write_path","path":"/"})"},
    {"exec=/usr", R"({"kind":"exec_path","path":"/usr"})"},
    {"connect=*.a.com:443", R"({"kind":"connect_tcp","host":"*.a.com","port":443})"},
    {"connect=*:*", R"({"kind":"connect_tcp","host":"*","ports":[1,65535]})"},
    {"connect=*.:80", R"({"kind":"connect_tcp","host":"*.","port":80})"},
    {"connect=[fd00::/8]:80", R"({"kind":"connect_tcp","host":"fd00::/8","port":80})"},
    {"listen=127.0.0.1:8000-8100",
     R"({"kind":"listen_tcp","host":"127.0.0.1","ports":[8000,8100]})"},
    {"unix=/run/x", R"({"kind":"connect_unix","path":"/run/x"})"},
    {"resolve=*", R"({"kind":"resolve_name","name":"*"})"},
    {"import=a.b", R"({"kind":"import","module":"a.b"})"},
    {"env=A", R"({"kind":"env","name":"A"})"},
    {"env=A=1\n\t2", R"({"kind":"env","name":"A","value":"1\n\t2"})"},
    {"secret=key", R"({"kind":"secret","name":"key"})"},
    {"subprocess=git,make",
     R"({"kind":"subprocess","commands":["git","make"],"allow_shell":false})"},
    {"subprocess_shell=sh", R"({"kind":"subprocess","commands":["sh"],"allow_shell":true})"},
    {"clock", R"({"kind":"clock"})"},
    {"random", R"({"kind":"random"})"},
    {"channel=jobs", R"({"kind":"channel","name":"jobs"})"},
    {"syscalls=sysv-ipc", R"({"kind":"syscalls","name":"sysv-ipc"})"},
    {"cpu=500ms", R"({"kind":"cpu_budget","ms":500})"},
    {"memory=9223372036854775807", R"({"kind":"memory_budget","bytes":9223372036854775807})"},
    {"pids=1", R"({"kind":"pids_budget","count":1})"},
    {"wall=1000ms", R"({"kind":"wall_budget","ms":1000})"},
    {"disk=2", R"({"kind":"disk_budget","bytes":2})"},
    {"inodes=3", R"({"kind":"inode_budget","count":3})"},
    {"output=4", R"({"kind":"output_budget","bytes":4})"},
    {"open_files=5", R"({"kind":"open_files_budget","count":5})"},
    {"connections=6", R"({"kind":"connections_budget","count":6})"},
    {"egress_bytes=7", R"({"kind":"egress_bytes_budget","bytes":7})"},
    {"connect_rate=20/s", R"({"kind":"connect_rate_budget","per_second":20})"},
};

TEST(JsonCodec, EveryKindHasOneForm) {
  std::set<std::size_t> kinds;
  for (const Pair& pair : kPairs) {
    const auto capability = parse_term(pair.term);
    ASSERT_TRUE(capability) << pair.term;
    EXPECT_EQ(encode_capability(*capability), pair.json);
    const auto decoded = decode_capability(pair.json);
    ASSERT_TRUE(decoded) << pair.json << ": " << decoded.error().message;
    EXPECT_EQ(*decoded, *capability) << pair.json;
    kinds.insert(capability->index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Capability>);
}

TEST(JsonCodec, CapabilitiesAreReadStrictly) {
  for (const char* text : {
           R"({})",
           R"([])",
           R"("read_path")",
           R"({"path":"/a"})",
           R"({"kind":1,"path":"/a"})",
           R"({"kind":"raed_path","path":"/a"})",
           R"({"kind":"read_path"})",
           R"({"kind":"read_path","path":1})",
           R"({"kind":"read_path","path":null})",
           R"({"kind":"read_path","path":["/a"]})",
           R"({"kind":"read_path","path":"a"})",
           R"({"kind":"read_path","path":"/a\u0000b"})",
           R"({"kind":"read_path","path":"/a\ud800"})",
           R"({"kind":"read_path","path":"/a","path":"/b"})",
           R"({"kind":"read_path","kind":"write_path","path":"/a"})",
           R"({"kind":"read_path","path":"/a","pa\u0074h":"/b"})",
           R"({"kind":"read_path","path":"/a","mode":"rw"})",
           R"({"kind":"clock","path":"/a"})",
           R"({"kind":"connect_tcp","host":"a.com"})",
           R"({"kind":"connect_tcp","host":"a.com","port":0})",
           R"({"kind":"connect_tcp","host":"a.com","port":-1})",
           R"({"kind":"connect_tcp","host":"a.com","port":65536})",
           R"({"kind":"connect_tcp","host":"a.com","port":443.0})",
           R"({"kind":"connect_tcp","host":"a.com","port":"443"})",
           R"({"kind":"connect_tcp","host":"a.com","port":true})",
           R"({"kind":"connect_tcp","host":"a.com","port":80,"ports":[80,81]})",
           R"({"kind":"connect_tcp","host":"a.com","ports":[80]})",
           R"({"kind":"connect_tcp","host":"a.com","ports":[81,80]})",
           R"({"kind":"connect_tcp","host":"a.com:443","port":443})",
           R"({"kind":"listen_tcp","host":"a.com","port":443})",
           R"({"kind":"env","name":"A","value":null})",
           R"({"kind":"secret","name":"a","value":"hunter2"})",
           R"({"kind":"subprocess","commands":["a"]})",
           R"({"kind":"subprocess","commands":[],"allow_shell":false})",
           R"({"kind":"subprocess","commands":"a","allow_shell":false})",
           R"({"kind":"subprocess","commands":["a"],"allow_shell":0})",
           R"({"kind":"cpu_budget","ms":0})",
           R"({"kind":"cpu_budget","ms":true})",
           R"({"kind":"cpu_budget","count":1})",
           R"({"kind":"connect_rate_budget","count":1})",
           R"({"kind":"connect_rate_budget","per_second":"1/s"})",
           R"({"kind":"memory_budget","bytes":18446744073709551616})",
           R"({"kind":"clock"} x)",
           R"({"kind":"clock",})",
           "{\"kind\":\"read_path\",\"path\":\"/\xff\"}",
           "",
       }) {
    EXPECT_FALSE(decode_capability(text)) << text;
  }
}

TEST(JsonCodec, ASetListsRulesByEffect) {
  const std::vector<Rule> rules{{Effect::Allow, *parse_term("write=/a")},
                                {Effect::Deny, *parse_term("write=/a/b")},
                                {Effect::Allow, *parse_term("cpu=5ms")},
                                {Effect::Silent, *parse_term("read=/a/c")}};
  const AuthoritySet set = *AuthoritySet::from_rules(rules);
  EXPECT_EQ(
      *encode_set(set),
      R"({"version":1,"allow":[{"kind":"write_path","path":"/a"},{"kind":"cpu_budget","ms":5}],)"
      R"("deny":[{"kind":"write_path","path":"/a/b"}],)"
      R"("silent":[{"kind":"read_path","path":"/a/c"}]})");
  EXPECT_EQ(*decode_set(*encode_set(set)), set);
  EXPECT_EQ(*encode_set(AuthoritySet()), R"({"version":1})");
}

TEST(JsonCodec, SetsAreReadStrictly) {
  for (const char* text : {
           R"({})",
           R"({"version":2})",
           R"({"version":"1"})",
           R"({"version":1,"Allow":[]})",
           R"({"version":1,"allow":{}})",
           R"({"version":1,"allow":[],"allow":[]})",
           R"({"version":1,"allow":["clock"]})",
           R"({"version":1,"deny":[{"kind":"cpu_budget","ms":5}]})",
           R"({"version":1,"allow":[[[[[[[[[[]]]]]]]]]]})",
       }) {
    EXPECT_FALSE(decode_set(text)) << text;
  }
  EXPECT_TRUE(decode_set(R"({"version":1,"allow":[],"deny":[]})")->empty());
}

TEST(JsonCodec, ErrorsSayWhere) {
  EXPECT_EQ(
      decode_set(R"({"version":1,"deny":[{"kind":"clock"},{"kind":"clok"}]})").error().message,
      "deny[1]: capability: unknown kind 'clok'");
}

TEST(JsonCodec, SizesAreBounded) {
  EXPECT_EQ(decode_set(std::string((4u << 20) + 1, ' ')).error().code, Code::Exhausted);
  std::string many = R"({"version":1,"allow":[{"kind":"clock"})";
  for (std::size_t i = 0; i < AuthoritySet::kMaxRules; ++i) many += R"(,{"kind":"clock"})";
  EXPECT_EQ(decode_set(many + "]}").error().code, Code::Exhausted);
}

TEST(JsonCodec, ASecretIsItsNameAlone) {
  const AuthoritySet set =
      *AuthoritySet::granting(std::vector<Capability>{*parse_term("secret=k")});
  EXPECT_EQ(*encode_set(set), R"({"version":1,"allow":[{"kind":"secret","name":"k"}]})");
}

}  // namespace
}  // namespace glovebox::authority
