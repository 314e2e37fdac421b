#include "host/secrets.h"

#include "authority/terms.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include <sys/stat.h>

namespace glovebox::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Secrets : public ::testing::Test {
 protected:
  Secrets() {
    char name[] = "/tmp/glovebox-secrets-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~Secrets() override { fs::remove_all(directory_); }

  void put(const std::string& name, mode_t mode = 0600) const {
    std::ofstream(directory_ + "/" + name) << "value";
    ASSERT_EQ(::chmod((directory_ + "/" + name).c_str(), mode), 0);
  }
  auto find(const std::vector<std::string>& terms) const {
    std::vector<authority::Capability> grants;
    for (const std::string& term : terms) grants.push_back(*authority::parse_term(term));
    return find_secrets(*authority::AuthoritySet::granting(grants), directory_);
  }

  std::string directory_;
};

TEST_F(Secrets, AreFoundByTheirNames) {
  put("token");
  put("other");
  const auto found = find({"secret=token", "read=/srv"});
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->at("token").path, directory_ + "/token");
}

TEST_F(Secrets, OneThatIsMissingIsNamed) {
  const auto found = find({"secret=token"});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("no secret 'token'"));
}

TEST_F(Secrets, WhatOthersCanReadIsNoSecret) {
  put("token", 0644);
  EXPECT_FALSE(find({"secret=token"}));
  put("token", 0600);
  EXPECT_TRUE(find({"secret=token"}));
  ASSERT_EQ(::chmod(directory_.c_str(), 0711), 0);
  EXPECT_FALSE(find({"secret=token"}));
}

TEST_F(Secrets, NamesDoNotLeadOut) {
  for (const char* name : {"../token", "a/b", "..", "."}) {
    EXPECT_FALSE(authority::parse_term("secret", name)) << name;
  }
}

TEST_F(Secrets, ADirectoryIsNone) {
  ASSERT_EQ(::mkdir((directory_ + "/token").c_str(), 0700), 0);
  EXPECT_FALSE(find({"secret=token"}));
}

}  // namespace
}  // namespace glovebox::host
