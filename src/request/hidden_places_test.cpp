#include "request/hidden_places.h"

#include "authority/terms.h"
#include "host/path_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace glovebox::session {
namespace {

namespace fs = std::filesystem;
using testing::Contains;

class HiddenPlacesTest : public testing::Test {
 protected:
  HiddenPlacesTest() {
    std::string name = "/tmp/glovebox-hidden-XXXXXX";
    place_ = ::mkdtemp(name.data());
    fs::create_directories(place_ / "in/store");
    std::ofstream(place_ / "token") << "word";
  }
  ~HiddenPlacesTest() override { fs::remove_all(place_); }

  std::string at(const char* name) const { return (place_ / name).string(); }

  Result<void> open(std::vector<HiddenPlace> places) {
    return places_.open(std::move(places), Around::Refused);
  }

  fs::path place_;
  HiddenPlaces places_;
};

TEST_F(HiddenPlacesTest, AreHiddenByNameAndWhereTheyWereMovedTo) {
  ASSERT_TRUE(open({{at("token")},
                    {at("missing")},
                    {at("in/store"), WhenMissing::Wait},
                    {at("later"), WhenMissing::Wait}}));
  EXPECT_THAT(*places_.paths(),
              testing::UnorderedElementsAre(at("token"), at("missing"), at("in/store")));
  fs::rename(place_ / "in", place_ / "out");
  fs::rename(place_ / "token", place_ / "other");
  EXPECT_THAT(*places_.paths(), testing::UnorderedElementsAre(at("token"), at("missing"),
                                                              at("out/store"), at("other")));
}

TEST_F(HiddenPlacesTest, WhatComesLaterIsHeldWhenItIsThere) {
  ASSERT_TRUE(open({{at("later"), WhenMissing::Wait}}));
  EXPECT_TRUE(places_.paths()->empty());
  fs::create_directories(place_ / "later");
  EXPECT_THAT(*places_.paths(), Contains(at("later")));
  fs::rename(place_ / "later", place_ / "moved");
  EXPECT_THAT(*places_.paths(), Contains(at("moved")));
}

TEST_F(HiddenPlacesTest, WhatIsGoneIsForgotten) {
  ASSERT_TRUE(open({{at("token")}}));
  for (std::size_t i = 0; i < 2 * HiddenPlaces::kMostHeld; ++i) {
    fs::remove(place_ / "token");
    std::ofstream(place_ / "token") << i;
    ASSERT_TRUE(places_.paths()) << i;
  }
}

// A process that may write there could give the name to others until the first is forgotten.
TEST_F(HiddenPlacesTest, NothingIsForgottenForWhatTookItsName) {
  ASSERT_TRUE(open({{at("in/store"), WhenMissing::Wait}}));
  fs::rename(place_ / "in", place_ / "out");
  for (std::size_t i = 0; i < 2 * HiddenPlaces::kMostHeld; ++i) {
    fs::create_directories(place_ / "in/store");
    const auto paths = places_.paths();
    if (!paths) {
      EXPECT_NE(paths.error().message.find("again and again"), std::string::npos);
      return;
    }
    ASSERT_THAT(*paths, Contains(at("out/store"))) << i;
    fs::rename(place_ / "in", place_ / ("in" + std::to_string(i)));
  }
  FAIL() << "so many are not held";
}

// Interpreters and system trees come into a box without a rule, after this.
TEST_F(HiddenPlacesTest, OfAServiceAreDeniedInEveryBox) {
  ASSERT_TRUE(open({{at("token")}, {"/etc/passwd", WhenMissing::Wait}}));
  plan::SandboxSpec spec;
  ASSERT_TRUE(places_.hide(spec, {}));
  for (const std::string& path : {at("token"), std::string("/etc/passwd")}) {
    for (const char* use : {"read", "unix"}) {
      EXPECT_EQ(spec.authority.decide(*authority::parse_term(use, path)).effect,
                authority::Effect::Deny)
          << use << " " << path;
    }
  }
}

TEST_F(HiddenPlacesTest, OfACommandAreDeniedWhereTheyAreShown) {
  ASSERT_TRUE(open({{at("in/store"), WhenMissing::Make}, {"/etc/skel", WhenMissing::Make}}));
  plan::SandboxSpec spec;
  ASSERT_TRUE(places_.hide(spec, {}));
  EXPECT_EQ(spec.authority.rules().size(), 2U) << "a system tree is in every box";
  spec.workspaces.push_back({*host::look_up(at("in"))});
  ASSERT_FALSE(places_.hide(spec, {})) << "a workspace around one, of a service";
}

TEST_F(HiddenPlacesTest, AGrantInsideIsRefusedByName) {
  ASSERT_TRUE(open({{at("in")}}));
  plan::SandboxSpec spec;
  for (const char* use : {"read", "write", "exec", "unix"}) {
    const std::vector<authority::Capability> inside{*authority::parse_term(use, at("in/store"))};
    const auto handed = *authority::AuthoritySet::granting(inside);
    const auto hidden = places_.hide(spec, handed);
    ASSERT_FALSE(hidden) << use;
    EXPECT_NE(hidden.error().message.find(at("in/store")), std::string::npos);
  }
  const std::vector<authority::Capability> beside{*authority::parse_term("read", at("other"))};
  EXPECT_TRUE(places_.hide(spec, *authority::AuthoritySet::granting(beside)));
}

}  // namespace
}  // namespace glovebox::session
