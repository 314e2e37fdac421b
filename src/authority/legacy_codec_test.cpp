#include "authority/legacy_codec.h"

#include "authority/terms.h"

#include <gtest/gtest.h>

namespace glovebox::authority {
namespace {

AuthoritySet grants(std::initializer_list<const char*> terms) {
  std::vector<Capability> capabilities;
  for (const char* term : terms) capabilities.push_back(*parse_term(term));
  return *AuthoritySet::granting(capabilities);
}

std::string tag(std::string_view kind, std::string_view fields) {
  return fmt::format(R"({{"__pyisolate_capability__":"{}"{}{}}})", kind, fields.empty() ? "" : ",",
                     fields);
}

// g++ 12 warns falsely about "text" + std::string.
std::string listed(std::initializer_list<std::string> tags) {
  return fmt::format("[{}]", fmt::join(tags, ","));
}

TEST(LegacyCodec, ReadsAllElevenKinds) {
  const std::string text = fmt::format(
      R"({{"authority":{},"clock":{},"random":{},"filesystem":{},"network":{},"secrets":{},)"
      R"("subprocess":{}}})",
      listed({tag("read_path", R"("path":"/r")"), tag("write_path", R"("path":"/w/")"),
              tag("connect_tcp", R"("host":"[::1]","port":80)"),
              tag("import", R"("module":"os.path")"), tag("cpu_budget", R"("ms":50)")}),
      tag("clock", ""), tag("random", ""), tag("filesystem", R"("roots":["/f","/g"])"),
      tag("network", R"("destinations":["a.com:443","10.0.0.1:22"])"),
      tag("secrets", R"("values":{"k":"6869FF"})"),
      tag("subprocess", R"("allowed_commands":["git"],"allow_shell":true)"));
  const auto legacy = decode_legacy(text);
  ASSERT_TRUE(legacy) << legacy.error().message;
  EXPECT_EQ(legacy->authority,
            grants({"read=/r", "write=/w", "connect=[::1]:80", "import=os.path", "cpu=50ms",
                    "clock", "random", "write=/f", "write=/g", "connect=a.com:443",
                    "connect=10.0.0.1:22", "secret=k", "subprocess_shell=git"}));
  EXPECT_EQ(legacy->secrets, (std::vector<LegacySecret>{{"k", "hi\xff"}}));
}

TEST(LegacyCodec, ReadsABareTagAndABareList) {
  EXPECT_EQ(decode_legacy(tag("clock", ""))->authority, grants({"clock"}));
  EXPECT_EQ(decode_legacy(listed({tag("clock", ""), tag("random", "")}))->authority,
            grants({"clock", "random"}));
  EXPECT_TRUE(decode_legacy("{}")->authority.empty());
  EXPECT_TRUE(decode_legacy(tag("subprocess", R"("allowed_commands":[],"allow_shell":true)"))
                  ->authority.empty());
}

TEST(LegacyCodec, RefusesWhatItDoesNotKnow) {
  for (const std::string& text : {
           std::string("1"),
           std::string(R"({"a":{}})"),
           std::string(R"({"a":"b"})"),
           tag("ipc", ""),
           tag("clock", R"("x":1)"),
           tag("read_path", ""),
           tag("read_path", R"("path":"relative")"),
           tag("read_path", R"("path":"/a/../b")"),
           tag("connect_tcp", R"("host":"a.com","port":0)"),
           tag("connect_tcp", R"("host":"a.com","port":99999)"),
           tag("connect_tcp", R"("host":"a.com","port":"80")"),
           tag("cpu_budget", R"("ms":true)"),
           tag("cpu_budget", R"("ms":-5)"),
           tag("secrets", R"("values":{"k":"6"})"),
           tag("secrets", R"("values":{"k":"zz"})"),
           tag("secrets", R"("values":{"a b":"00"})"),
           listed({listed({tag("clock", "")})}),
       }) {
    EXPECT_FALSE(decode_legacy(text)) << text;
  }
}

// There these are texts that match nothing; read as patterns they would grant much.
TEST(LegacyCodec, ReadsNoPatterns) {
  for (const std::string& text : {
           tag("connect_tcp", R"("host":"*","port":443)"),
           tag("connect_tcp", R"("host":"*.a.com","port":443)"),
           tag("connect_tcp", R"("host":"10.0.0.0/8","port":443)"),
           tag("network", R"("destinations":["a.com:1-65535"])"),
           tag("network", R"("destinations":["a.com:*"])"),
           tag("import", R"("module":"*")"),
           tag("read_path", R"("path":"/srv/*")"),
       }) {
    EXPECT_FALSE(decode_legacy(text)) << text;
  }
}

TEST(LegacyCodec, ShowsNothingOfASecretsValue) {
  const auto refused = decode_legacy(tag("secrets", R"("values":{"k":"6869zz"})"));
  EXPECT_EQ(refused.error().message, "secret 'k': not hex");
}

TEST(LegacyCodec, WritesWhatItReads) {
  const AuthoritySet set =
      grants({"read=/r", "write=/w", "connect=a.com:80", "connect=a.com:81", "connect=[::1]:80",
              "import=json", "cpu=50ms", "clock", "random", "secret=k", "subprocess=git,make"});
  const auto text = encode_legacy(set);
  ASSERT_TRUE(text) << text.error().message;
  const auto legacy = decode_legacy(*text);
  ASSERT_TRUE(legacy) << legacy.error().message;
  EXPECT_EQ(legacy->authority, set);
  EXPECT_TRUE(legacy->secrets.empty());
}

TEST(LegacyCodec, WritesSecretsAsReferences) {
  EXPECT_EQ(*encode_legacy(grants({"secret=k"})),
            R"({"secrets":{"__pyisolate_capability__":"secrets","values":{},"references":["k"]}})");
}

TEST(LegacyCodec, RefusesTermsWithoutALegacyForm) {
  for (const char* term :
       {"exec=/a", "listen=*:80", "unix=/a", "resolve=a.com", "env=A", "channel=a", "syscalls=numa",
        "memory=1", "connect=*:80", "connect=a.com:*", "connect=10.0.0.0/8:80", "import=a.*"}) {
    EXPECT_EQ(encode_legacy(grants({term})).error().code, Code::Unsupported) << term;
  }
  const std::vector<Rule> denial{{Effect::Deny, *parse_term("read=/a")}};
  EXPECT_FALSE(encode_legacy(*AuthoritySet::from_rules(denial)));
  EXPECT_FALSE(encode_legacy(grants({"subprocess=a", "subprocess_shell=b"})));
}

}  // namespace
}  // namespace glovebox::authority
