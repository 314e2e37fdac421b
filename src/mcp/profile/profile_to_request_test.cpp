#include "mcp/profile/profile_to_request.h"

#include "mcp/profile/modes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace glovebox::mcp {
namespace {

using testing::HasSubstr;
using testing::Not;

class FakeHost final : public HostView {
 public:
  std::set<std::string> there{"/",        "/home", "/home/me", "/home/me/.ssh", "/opt", "/proc",
                              "/run",     "/srv",  "/tmp",     "/usr",          "/var", "/var/lib",
                              "/var/run", "/ws",   "/ws/.git", "/home/box"};
  std::vector<std::string> globbed;
  std::set<std::string> links;
  std::map<std::string, std::string> files;
  std::map<std::string, std::uint64_t> inodes;

  std::vector<std::string> directories(const std::string& path) const override {
    std::vector<std::string> names;
    for (const std::string& each : there) {
      const std::size_t slash = each.rfind('/');
      const std::string above = slash == 0 ? "/" : each.substr(0, slash);
      if (each != "/" && above == path) names.push_back(each.substr(slash + 1));
    }
    return names;
  }
  std::vector<std::string> system() const override { return {"usr", "etc"}; }
  std::optional<Kind> look_at(const std::string& path) const override {
    return there.contains(path) ? std::optional(Kind::Directory) : std::nullopt;
  }
  bool is_placeholder(const std::string& path) const override { return path == "/ws/.aws"; }
  std::string resolve(const std::string& path) const override { return path; }
  bool is_link(const std::string& path) const override { return links.contains(path); }
  Result<std::optional<std::string>> read_small_file(const std::string& path) const override {
    const auto found = files.find(path);
    return found == files.end() ? std::optional<std::string>() : std::optional(found->second);
  }
  Result<std::vector<std::string>> matches(const DenyGlob& /*glob*/, const std::string& /*root*/,
                                           std::span<const std::string> /*kept*/) const override {
    return globbed;
  }
  FileId identify(const std::string& path) const override {
    const auto found = inodes.find(path);
    return {1, found == inodes.end() ? 1 : found->second};
  }
  std::string home() const override { return "/home/me"; }
  std::string variable(std::string_view /*name*/) const override { return {}; }
};

Profile workspace_write() { return make_profile({Mode::WorkspaceWrite, {}}, "/ws"); }

std::string rules(const BoxOrder& order) { return to_text(order.request.handed); }

BoxOrder made(const Profile& profile, const FakeHost& host = {}) {
  auto order = make_order(profile, {}, host);
  EXPECT_TRUE(order) << (order ? "" : order.error().message);
  return order ? *std::move(order) : BoxOrder();
}

TEST(ProfileRequest, EverythingIsSpelledOutWithoutWhatABoxHasOfItsOwn) {
  const std::string text = rules(made(make_profile({Mode::ReadOnly, {}}, "/ws")));
  for (const char* granted :
       {"allow read=/home/me\n", "allow read=/opt\n", "allow read=/var/lib\n"}) {
    EXPECT_THAT(text, HasSubstr(granted));
  }
  for (const char* own : {"/proc", "/run", "/tmp", "/usr", "/home/box", "/var/run", "read=/\n"}) {
    EXPECT_THAT(text, Not(HasSubstr(own))) << own;
  }
  EXPECT_THAT(text, HasSubstr("deny read=/home/me/.ssh"));
}

TEST(ProfileRequest, ProtectedNamesAreHeldWhenTheyAreMissing) {
  FakeHost host;
  host.there.insert("/ws/.aws");  // another server's placeholder
  const BoxOrder order = made(workspace_write(), host);
  for (const char* name : {".git", ".codex", ".agents", ".aws"}) {
    EXPECT_THAT(rules(order), HasSubstr(fmt::format("deny write=/ws/{}\n", name)));
  }
  EXPECT_THAT(order.held_names,
              testing::UnorderedElementsAre("/ws/.codex", "/ws/.agents", "/ws/.aws"));
  ASSERT_EQ(order.request.workspaces.size(), 1U);
  EXPECT_EQ(order.request.workspaces[0].mode, WorkspaceMode::Write);
}

TEST(ProfileRequest, AnEntryForAProtectedNameOpensIt) {
  Profile profile = workspace_write();
  profile.entries.push_back({"/ws/.git", Access::Write});
  normalize(profile);
  EXPECT_THAT(rules(made(profile)), Not(HasSubstr("deny write=/ws/.git\n")));
}

TEST(ProfileRequest, ADenialThatCannotBeHeldIsRefused) {
  Profile profile = workspace_write();
  profile.entries.push_back({"/ws/no/such", Access::Deny});
  const auto order = make_order(profile, {}, FakeHost());
  ASSERT_FALSE(order);
  EXPECT_EQ(order.error().code, Code::Unsupported);
  EXPECT_THAT(order.error().message, HasSubstr("/ws/no/such"));
}

TEST(ProfileRequest, GlobsBecomeDenials) {
  FakeHost host;
  host.globbed = {"/ws/a.env"};
  Profile profile = workspace_write();
  profile.deny_globs = {"/ws/*.env"};
  EXPECT_THAT(rules(made(profile, host)), HasSubstr("deny read=/ws/a.env\n"));
}

TEST(ProfileRequest, AGlobWithoutWildcardsDeniesItsPath) {
  FakeHost host;
  host.there.insert("/ws/secrets");
  Profile profile = workspace_write();
  profile.deny_globs = {"/ws/secrets"};
  EXPECT_THAT(rules(made(profile, host)), HasSubstr("deny read=/ws/secrets\n"));
}

std::string refusal(const Profile& profile, const FakeHost& host) {
  const auto order = make_order(profile, {}, host);
  return order ? "accepted" : order.error().message;
}

TEST(ProfileRequest, WhatAGitFileLeadsToIsProtected) {
  FakeHost host;
  host.there.insert({"/ws/bare", "/ws/bare/worktrees/w"});
  host.files["/ws/.git"] = "gitdir: /ws/bare/worktrees/w\n";
  host.files["/ws/bare/worktrees/w/commondir"] = "/ws/bare\n";
  const std::string text = rules(made(workspace_write(), host));
  EXPECT_THAT(text, HasSubstr("deny write=/ws/bare\n"));
  // Elsewhere nothing can be written anyway.
  host.files["/ws/.git"] = "gitdir: /srv\n";
  EXPECT_THAT(rules(made(workspace_write(), host)), Not(HasSubstr("deny write=/srv")));
  // One that is missing could be made.
  host.files["/ws/.git"] = "gitdir: /ws/gone\n";
  EXPECT_THAT(made(workspace_write(), host).held_names, testing::Contains("/ws/gone"));
  host.files["/ws/.git"] = "gitdir: /ws\n";
  EXPECT_THAT(refusal(workspace_write(), host), HasSubstr("/ws/.git leads to /ws"));
}

TEST(ProfileRequest, ALinkThatTheBoxCouldReplaceIsRefused) {
  FakeHost host;
  host.links = {"/ws/.git"};
  EXPECT_THAT(refusal(workspace_write(), host), HasSubstr("/ws/.git is a symbolic link"));
  Profile profile = workspace_write();
  profile.entries.push_back({"/ws/a/b", Access::Deny});
  host.links = {"/ws/a"};
  EXPECT_THAT(refusal(profile, host), HasSubstr("/ws/a is a symbolic link"));
  host.links = {"/srv"};  // where the box cannot write
  EXPECT_EQ(refusal(workspace_write(), host), "accepted");
}

TEST(ProfileRequest, ABoxIsNoLongerCoveredWhenAnotherFileIsThere) {
  FakeHost host;
  host.globbed = {"/ws/a.env"};
  Profile profile = workspace_write();
  profile.deny_globs = {"/ws/*.env"};
  const auto covered = look_at_covered(made(profile, host), host);
  EXPECT_TRUE(*is_still_covered(profile, {}, host, covered));
  host.inodes["/ws/a.env"] = 2;  // replaced
  EXPECT_FALSE(*is_still_covered(profile, {}, host, covered));
  host.inodes.clear();
  host.globbed.clear();  // removed: nothing to cover
  EXPECT_TRUE(*is_still_covered(profile, {}, host, covered));
  host.globbed = {"/ws/a.env", "/ws/b.env"};  // a new one
  EXPECT_FALSE(*is_still_covered(profile, {}, host, covered));
  host.globbed = {"/ws/a.env", "/ws/.aws"};  // a name that the box itself holds
  EXPECT_TRUE(*is_still_covered(profile, {}, host, covered));
  host.globbed = {"/ws/a.env"};
  host.inodes["/ws/.git"] = 2;  // a repository made anew
  EXPECT_FALSE(*is_still_covered(profile, {}, host, covered));
}

TEST(ProfileRequest, FullAccessProtectsNothing) {
  const BoxOrder order = made(make_profile({Mode::FullAccess, {}}, "/ws"));
  EXPECT_TRUE(order.held_names.empty());
  EXPECT_THAT(rules(order), Not(HasSubstr("deny")));
  EXPECT_THAT(rules(order), HasSubstr("allow write=/opt\n"));
  EXPECT_FALSE(order.network.empty());
}

TEST(Modes, OrderMatters) {
  using Kind = ModeWord::Kind;
  const auto choose = [](std::vector<ModeWord> words) { return choose_mode(words); };
  EXPECT_EQ(choose({})->mode, Mode::WorkspaceWrite);
  EXPECT_EQ(choose({{Kind::Sandbox, "inherit"}, {Kind::Sandbox, "read-only"}})->mode,
            Mode::ReadOnly);
  EXPECT_FALSE(choose({{Kind::Sandbox, "read-only"}, {Kind::AddWritableRoot, "/x"}}));
  EXPECT_FALSE(choose({{Kind::AddWritableRoot, "x"}}));
  EXPECT_FALSE(choose({{Kind::Config, "no.such=1"}}));
  EXPECT_FALSE(choose({{Kind::Sandbox, "read-only"},
                       {Kind::Config, "sandbox_workspace_write.network_access=true"}}));
  const auto dropped = choose({{Kind::AddWritableRoot, "/x"}, {Kind::Sandbox, "workspace-write"}});
  EXPECT_TRUE(dropped->refinements.empty());
  EXPECT_FALSE(refine(make_profile({Mode::FullAccess, {}}, "/ws"),
                      choose({{Kind::AddWritableRoot, "/x"}})->refinements));
}

}  // namespace
}  // namespace glovebox::mcp
