#include "session/python/python_secret.h"

#include "base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

namespace json = boost::json;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

class SecretUse : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = testing::TempDir() + "glovebox-secret-XXXXXX";
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    directory_ = made;
    plan_.authority = *authority::AuthoritySet::granting(
        std::vector<authority::Capability>{*authority::Secret::parse("key")});
    keep("Jefe");  // of RFC 4231, test case 2
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/key"; }
  void keep(const std::string& value) {
    const UniqueFd file = *open_file(path(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT_TRUE(write_all(file, value));
    plan_.secrets["key"] = *host::look_up(path());
  }
  Result<std::string> sign(const json::object& payload) const {
    BrokerRequest request{"secret", "hmac", payload, {}};
    std::string blob;
    TRY_VOID(sign_with_secret(plan_, request, blob));
    return blob;
  }

  PythonPlan plan_;
  std::string directory_;
};

TEST_F(SecretUse, SignsAsTheStandardDoes) {
  const std::string data = "what do ya want for nothing?";
  EXPECT_EQ(hex(*sign({{"name", "key"}, {"data", data}})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(*sign({{"name", "key"}, {"data", data}, {"algorithm", "sha512"}})),
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
            "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737");
  EXPECT_EQ(sign({{"name", "key"}, {"algorithm", "md5"}}).error().code, Code::Invalid);
}

TEST_F(SecretUse, NeedsItsOwnGrant) {
  EXPECT_EQ(sign({{"name", "other"}}).error().code, Code::Denied);
  EXPECT_EQ(sign({{"name", "../key"}}).error().code, Code::Invalid);
  plan_.secrets["other"] = plan_.secrets["key"];
  EXPECT_EQ(sign({{"name", "other"}}).error().code, Code::Denied) << "it is there, and not granted";
  plan_.authority = {};
  EXPECT_EQ(sign({{"name", "key"}}).error().code, Code::Denied);
}

TEST_F(SecretUse, UsesNothingThatOthersCouldHaveWritten) {
  ASSERT_EQ(::chmod(path().c_str(), 0640), 0);
  EXPECT_EQ(sign({{"name", "key"}}).error().code, Code::NotFound);
  std::filesystem::remove(path());
  EXPECT_EQ(sign({{"name", "key"}}).error().code, Code::NotFound);
  ASSERT_EQ(::symlink("/etc/hostname", path().c_str()), 0);
  EXPECT_EQ(sign({{"name", "key"}}).error().code, Code::NotFound);
}

TEST_F(SecretUse, IsBounded) {
  keep(std::string(kMaxSecret - 1, 'x'));
  EXPECT_TRUE(sign({{"name", "key"}}));
  keep(std::string(kMaxSecret, 'x'));
  EXPECT_EQ(sign({{"name", "key"}}).error().code, Code::Invalid);
  keep("short");
  EXPECT_TRUE(sign({{"name", "key"}, {"data", std::string(kMaxSigned, 'x')}}));
  EXPECT_EQ(sign({{"name", "key"}, {"data", std::string(kMaxSigned + 1, 'x')}}).error().code,
            Code::Invalid);
}

}  // namespace
}  // namespace glovebox::session
