#include "mcp/profile/codex_state.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace glovebox::mcp {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

constexpr std::string_view kTail =
    R"("codexLinuxSandboxExe":"/h/codex-linux-sandbox","sandboxCwd":"file:///ws",
       "useLegacyLandlock":false,"useMxc":false})";

json::object meta_of(const std::string& payload) { return {{kStateMeta, json::parse(payload)}}; }

std::string profile_payload(std::string_view profile) {
  return R"({"permissionProfile":)" + std::string(profile) + "," + std::string(kTail);
}

std::string managed(std::string_view entries, std::string_view network = "restricted") {
  return profile_payload(R"({"type":"managed","file_system":{"type":"restricted","entries":[)" +
                         std::string(entries) + R"(]},"network":")" + std::string(network) + "\"}");
}

constexpr std::string_view kRootRead =
    R"({"path":{"type":"special","value":{"kind":"root"}},"access":"read"})";
// As 0.166.0 sends it for --sandbox workspace-write.
const std::string kWorkspaceWrite = std::string(kRootRead) +
                                    R"(,{"path":{"type":"path","path":"/ws"},"access":"write"},
       {"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},
       {"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"},
       {"path":{"type":"path","path":"/ws/.git"},"access":"read","missing_path_behavior":"skip"},
       {"path":{"type":"path","path":"/ws/.agents"},"access":"read","missing_path_behavior":"skip"},
       {"path":{"type":"path","path":"/ws/.codex"},"access":"read","missing_path_behavior":"skip"},
       {"path":{"type":"path","path":"/ws/.aws"},"access":"read","missing_path_behavior":"skip"})";

Profile read(const std::string& payload) {
  auto state = read_codex_state(meta_of(payload));
  EXPECT_TRUE(state) << (state ? "" : state.error().message);
  return state && *state ? **state : Profile();
}

std::string problem(const json::object& meta) {
  const auto state = read_codex_state(meta);
  return state ? "" : state.error().message;
}
std::string problem(const std::string& payload) { return problem(meta_of(payload)); }

TEST(CodexState, ReadOnly) {
  const Profile profile = read(managed(kRootRead));
  Profile expected;
  expected.reach = Reach::ReadAll;
  expected.cwd = "/ws";
  EXPECT_EQ(profile, expected);
  EXPECT_EQ(mode_name(profile), "read-only");
}

TEST(CodexState, WorkspaceWrite) {
  const Profile profile = read(managed(kWorkspaceWrite));
  EXPECT_EQ(mode_name(profile), "workspace-write");
  EXPECT_TRUE(profile.writes_tmp && profile.writes_tmpdir);
  const std::vector<PathEntry> expected{{"/ws", Access::Write},
                                        {"/ws/.agents", Access::Read},
                                        {"/ws/.aws", Access::Read},
                                        {"/ws/.codex", Access::Read},
                                        {"/ws/.git", Access::Read}};
  EXPECT_EQ(profile.entries, expected);
}

// As Codex's own sandbox: read-only, and no network whatever the payload says.
TEST(CodexState, ExternalIsReadOnlyUnlessToldOtherwise) {
  const std::string current = profile_payload(R"({"type":"external","network":"enabled"})");
  const std::string older =
      R"({"sandboxPolicy":{"type":"external-sandbox","network_access":"enabled"},"sandboxCwd":"/ws"})";
  for (const std::string& payload : {current, older}) {
    const auto strict = read_codex_state(meta_of(payload));
    ASSERT_TRUE(strict && *strict) << payload;
    EXPECT_EQ((*strict)->reach, Reach::ReadAll);
    EXPECT_EQ((*strict)->network, Network::Off);
    const auto trusted = read_codex_state(meta_of(payload), External::FullAccess);
    ASSERT_TRUE(trusted && *trusted) << payload;
    EXPECT_EQ((*trusted)->reach, Reach::FullAccess);
    EXPECT_EQ((*trusted)->network, Network::On);
  }
}

TEST(CodexState, GlobsBelongToTheDirectory) {
  const Profile profile = read(managed(
      R"({"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
         {"path":{"type":"glob_pattern","pattern":"*.env"},"access":"deny"})"));
  EXPECT_EQ(profile.deny_globs, std::vector<std::string>{profile.cwd + "/*.env"});
  EXPECT_NE(
      problem(managed(
          R"({"path":{"type":"glob_pattern","pattern":"codex-project-roots://x/*"},"access":"deny"})")),
      "");
}

TEST(CodexState, FullAccessExternalAndUnrestricted) {
  const Profile disabled = read(profile_payload(R"({"type":"disabled"})"));
  EXPECT_EQ(disabled.reach, Reach::FullAccess);
  EXPECT_EQ(disabled.network, Network::On);
  const Profile external = read(profile_payload(R"({"type":"external","network":"restricted"})"));
  EXPECT_EQ(external.reach, Reach::ReadAll);
  EXPECT_EQ(external.network, Network::Off);
  const Profile open = read(profile_payload(
      R"({"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"})"));
  EXPECT_EQ(open.reach, Reach::WriteAll);
}

TEST(CodexState, EntriesThatRepeatAreOne) {
  const std::string twice = std::string(kRootRead) +
                            R"(,{"path":{"type":"path","path":"/opt/x"},"access":"write"},
                               {"path":{"type":"path","path":"/opt/x"},"access":"write"})";
  EXPECT_EQ(read(managed(twice)).entries.size(), 1U);
}

TEST(CodexState, OfTwoEntriesAboutOnePathTheDenialHolds) {
  const std::string both = std::string(kRootRead) +
                           R"(,{"path":{"type":"path","path":"/x"},"access":"deny"},
                              {"path":{"type":"path","path":"/x"},"access":"write"})";
  EXPECT_EQ(read(managed(both)).entries, (std::vector<PathEntry>{{"/x", Access::Deny}}));
}

TEST(CodexState, OlderForm) {
  const std::string old =
      R"({"sandboxPolicy":{"type":"workspace-write","writable_roots":["/h/memories"],
          "network_access":false,"exclude_tmpdir_env_var":false,"exclude_slash_tmp":true},
          "sandboxCwd":"/ws","codexLinuxSandboxExe":null})";
  const Profile profile = read(old);
  EXPECT_EQ(mode_name(profile), "workspace-write");
  EXPECT_FALSE(profile.writes_tmp);
  EXPECT_TRUE(profile.writes_tmpdir);
  EXPECT_EQ(profile.entries.size(), 2U);
  EXPECT_EQ(read(R"({"sandboxPolicy":{"type":"danger-full-access"},"sandboxCwd":"/ws"})").reach,
            Reach::FullAccess);
}

// The field that says so was dropped by others, which made everything readable.
TEST(CodexState, OlderRestrictedReadsAreNotWidened) {
  const Profile profile = read(
      R"({"sandboxPolicy":{"type":"read-only","access":{"type":"restricted",
          "include_platform_defaults":true}},"sandboxCwd":"/ws"})");
  EXPECT_EQ(profile.reach, Reach::System);
}

TEST(CodexState, BothFormsMustAgree) {
  const auto both = [](std::string_view policy) {
    return R"({"permissionProfile":{"type":"managed","file_system":{"type":"restricted","entries":[)" +
           std::string(kRootRead) + R"(]},"network":"restricted"},"sandboxPolicy":)" +
           std::string(policy) + "," + std::string(kTail);
  };
  EXPECT_EQ(problem(both(R"({"type":"read-only"})")), "");
  EXPECT_THAT(problem(both(R"({"type":"danger-full-access"})")), HasSubstr("disagree"));
}

TEST(CodexState, TwoKeysMustAgree) {
  json::object meta = meta_of(managed(kRootRead));
  meta[kState] = json::parse(managed(kRootRead));
  EXPECT_EQ(problem(meta), "");
  meta[kState] = json::parse(profile_payload(R"({"type":"disabled"})"));
  EXPECT_THAT(problem(meta), HasSubstr("disagree"));
}

TEST(CodexState, HelpersAreNoPartOfThePolicy) {
  std::string other = managed(kRootRead);
  other.replace(other.find("/h/codex"), 8, "/i/codex");
  EXPECT_EQ(read(other), read(managed(kRootRead)));
}

TEST(CodexState, WorkingDirectories) {
  const auto with = [](std::string_view cwd) {
    return R"({"permissionProfile":{"type":"disabled"},"sandboxCwd":")" + std::string(cwd) + "\"}";
  };
  EXPECT_EQ(read(with("file:///a%20b/c")).cwd, "/a b/c");
  EXPECT_EQ(read(with("/plain")).cwd, "/plain");
  for (const char* bad : {"relative", "file://host/x", "file:///x?y", "file:///x#y", "file:///%zz",
                          "file:///x%00", "file:///a/../b", ""}) {
    EXPECT_NE(problem(with(bad)), "") << bad;
  }
}

TEST(CodexState, WhatIsNotUnderstoodIsRefused) {
  EXPECT_FALSE(*read_codex_state(json::object()));
  const json::object bad{{kStateMeta, "invalid"}};
  EXPECT_THAT(problem(bad), HasSubstr("failed to parse Codex sandbox state metadata"));
  EXPECT_THAT(problem(R"({"sandboxCwd":"/ws"})"), HasSubstr("missing field"));
  EXPECT_THAT(problem(managed("")), HasSubstr("requires at least one readable entry"));
  const std::vector<std::string> entries{
      R"({"path":{"type":"path","path":"/x"},"access":"execute"})",
      R"({"path":{"type":"path","path":"x"},"access":"read"})",
      R"({"path":{"type":"socket","path":"/x"},"access":"read"})",
      R"({"path":{"type":"path","path":"/x"},"access":"read","except":"/y"})",
      R"({"path":{"type":"path","path":"/x"},"access":"read","missing_path_behavior":"widen"})",
      R"({"path":{"type":"glob_pattern","pattern":"/x/*"},"access":"read"})",
      R"({"path":{"type":"special","value":{"kind":"minimal"}},"access":"write"})",
      R"({"path":{"type":"special","value":{"kind":"everything"}},"access":"read"})",
      R"({"path":{"type":"special","value":{"kind":"project_roots","subpath":"../x"}},"access":"read"})"};
  for (const std::string& entry : entries) {
    EXPECT_NE(problem(managed(std::string(kRootRead) + "," + entry)), "") << entry;
  }
  EXPECT_NE(problem(managed(kRootRead, "proxied")), "");
  EXPECT_NE(problem(profile_payload(R"({"type":"partial"})")), "");
}

TEST(CodexState, UnknownSpecialsGrantNothingAndAreNoDenialThatIsDropped) {
  const auto with = [](const std::string& access) {
    return managed(
        std::string(kRootRead) +
        R"(,{"path":{"type":"special","value":{"kind":"unknown","path":":x"}},"access":")" +
        access + "\"}");
  };
  EXPECT_EQ(read(with("write")), read(managed(kRootRead)));
  EXPECT_EQ(read(with("read")), read(managed(kRootRead)));
  EXPECT_NE(problem(with("deny")), "");
}

}  // namespace
}  // namespace glovebox::mcp
