#include "host/resolve_authority.h"

#include "authority/terms.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace glovebox::host {
namespace {

namespace fs = std::filesystem;

class ResolveAuthority : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "resolve-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = fs::canonical(pattern);
    fs::create_directories(root_ / "real" / "in");
    std::ofstream(root_ / "real" / "file") << "x";
    fs::create_symlink("real", root_ / "link");
  }
  void TearDown() override { fs::remove_all(root_); }

  authority::Rule rule(authority::Effect effect, const std::string& word, const fs::path& path) {
    return {effect, *authority::parse_term(word, path.string())};
  }
  static authority::AuthoritySet set(const std::vector<authority::Rule>& rules) {
    return *authority::AuthoritySet::from_rules(rules);
  }

  fs::path root_;
};

constexpr authority::Effect kAllow = authority::Effect::Allow;
constexpr authority::Effect kDeny = authority::Effect::Deny;

TEST_F(ResolveAuthority, RulesMoveToWhereLinksLead) {
  const auto resolved = resolve_paths(set({rule(kAllow, "read", root_ / "link/in")}));
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->set, set({rule(kAllow, "read", root_ / "real/in")}));
  const auto facts = resolved->paths.find((root_ / "real/in").string());
  ASSERT_NE(facts, resolved->paths.end());
  EXPECT_EQ(facts->second.kind, PathKind::Directory);
}

TEST_F(ResolveAuthority, TwoNamesOfOnePlaceTieAndTheDenialHolds) {
  const auto resolved = resolve_paths(
      set({rule(kAllow, "read", root_ / "real"), rule(kDeny, "read", root_ / "link")}));
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->set, set({rule(kDeny, "read", root_ / "real")}));
}

TEST_F(ResolveAuthority, MissingPartsStayAsTheyAreNamed) {
  const auto resolved = resolve_paths(set({rule(kDeny, "write", root_ / "link/none/deeper")}));
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->set, set({rule(kDeny, "write", root_ / "real/none/deeper")}));
  EXPECT_TRUE(resolved->paths.empty());
}

TEST_F(ResolveAuthority, APathThroughAFileIsMissingToo) {
  const auto resolved = resolve_paths(set({rule(kDeny, "read", root_ / "link/file/x")}));
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->set, set({rule(kDeny, "read", root_ / "real/file/x")}));
}

TEST_F(ResolveAuthority, LoopsAreAnError) {
  fs::create_symlink("loop", root_ / "loop");
  EXPECT_FALSE(resolve_paths(set({rule(kDeny, "read", root_ / "loop")})));
}

TEST_F(ResolveAuthority, OtherKindsAreLeftAlone) {
  const std::vector<authority::Rule> rules{{kAllow, *authority::parse_term("env=HOME=/x")},
                                           {kAllow, *authority::parse_term("memory=1MiB")}};
  EXPECT_EQ(resolve_paths(set(rules))->set, set(rules));
}

}  // namespace
}  // namespace glovebox::host
