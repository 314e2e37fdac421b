// Sessions as values: what is written down comes back as it was, for every kind of capability.
#include "session/state/snapshot.h"

#include "authority/terms.h"

#include <gtest/gtest.h>

#include <random>

namespace glovebox::session {
namespace {

using authority::Effect;
using authority::Rule;

// One of each, so that a kind that is added later is missed here by the count below.
const std::vector<std::pair<std::string, std::string>>& all_kinds() {
  static const std::vector<std::pair<std::string, std::string>> kinds{
      {"read", "/srv/data"},
      {"write", "/srv/out"},
      {"exec", "/opt/tools"},
      {"connect", "*.example.com:443"},
      {"listen", "127.0.0.1:8000-8100"},
      {"unix", "/run/x.sock"},
      {"resolve", "example.com"},
      {"import", "json"},
      {"env", "HOME=/work"},
      {"secret", "api-key"},
      {"subprocess", "git,make"},
      {"clock", ""},
      {"random", ""},
      {"channel", "results"},
      {"cpu", "500ms"},
      {"memory", "64MiB"},
      {"pids", "32"},
      {"wall", "10s"},
      {"disk", "1GiB"},
      {"inodes", "1000"},
      {"output", "1MiB"},
      {"open_files", "64"},
      {"connections", "4"},
      {"egress_bytes", "1MiB"},
      {"connect_rate", "20/s"},
      {"syscalls", "sysv-ipc"},
  };
  return kinds;
}

authority::Capability capability(const std::pair<std::string, std::string>& term) {
  auto parsed = authority::parse_term(term.first, term.second);
  EXPECT_TRUE(parsed) << term.first << "=" << term.second << ": " << parsed.error().message;
  return *std::move(parsed);
}

authority::AuthoritySet set_of(const std::vector<Rule>& rules) {
  auto set = authority::AuthoritySet::from_rules(rules);
  EXPECT_TRUE(set) << set.error().message;
  return *std::move(set);
}

Snapshot full_snapshot() {
  Snapshot snapshot;
  snapshot.id = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
  snapshot.parent = "f81d4fae-7dec-41d0-a765-00a0c91e6bf7";
  BoxRequest& spec = snapshot.spec;
  spec.name = "a \"name\"";
  spec.labels = {{"k", "v"}};
  spec.workspaces = {{"/w", WorkspaceMode::Overlay}, {"/x", WorkspaceMode::Read}};
  spec.binds = {{"/s", "/d", WorkspaceMode::Read}};
  spec.policy = {"python", "version: 1\nallow: []\n", "", "sha256:0"};
  spec.cpus_milli = 1500;
  spec.backend = Backend::Process;
  spec.env = {{"TOKEN", "value with \n line"}, {"EMPTY", ""}};
  spec.uid = 7;
  spec.gid = 8;
  spec.idle_timeout = std::chrono::milliseconds(0);
  spec.waived = {"limit.memory"};
  snapshot.policy = plan::PolicyMark{"python", "sha256:0"};
  snapshot.shell = ShellState{"/w/deep", {{"A", "1"}, {"B", ""}}};
  snapshot.layers = {{"/w", 3, 4096}};
  snapshot.state = {StateKind::Config, StateKind::Files};
  return snapshot;
}

void expect_back(const Snapshot& snapshot) {
  const auto text = encode_snapshot(snapshot);
  ASSERT_TRUE(text) << text.error().message;
  const auto back = decode_snapshot(*text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(*back == snapshot) << *text;
  EXPECT_EQ(*encode_snapshot(*back), *text);
}

TEST(SnapshotText, ComesBackAsItWas) {
  expect_back(full_snapshot());
  expect_back(Snapshot());
}

TEST(SnapshotText, EveryCapabilityKindComesBack) {
  EXPECT_EQ(all_kinds().size(), std::variant_size_v<authority::Capability>);
  for (const auto& term : all_kinds()) {
    const bool is_budget = authority::find_budget(capability(term)).has_value();
    for (const Effect effect : {Effect::Allow, Effect::Deny}) {
      if (is_budget && effect == Effect::Deny) continue;
      Snapshot snapshot = full_snapshot();
      snapshot.spec.handed = set_of({{effect, capability(term)}});
      snapshot.spec.ceiling = snapshot.spec.handed;
      SCOPED_TRACE(term.first);
      expect_back(snapshot);
    }
  }
}

TEST(SnapshotText, AnyMixtureOfCapabilitiesComesBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Rule> rules;
    for (const auto& term : all_kinds()) {
      if (random() % 2 == 0) continue;
      const authority::Capability one = capability(term);
      const bool is_denied = random() % 4 == 0 && !authority::find_budget(one);
      rules.push_back({is_denied ? Effect::Deny : Effect::Allow, one});
    }
    Snapshot snapshot = full_snapshot();
    snapshot.spec.handed = set_of(rules);
    if (random() % 2 == 0) snapshot.spec.ceiling = snapshot.spec.handed;
    if (random() % 2 == 0) snapshot.spec.network_ceiling = snapshot.spec.handed;
    if (random() % 2 == 0) snapshot.shell.reset();
    if (random() % 2 == 0) snapshot.policy.reset();
    expect_back(snapshot);
  }
}

TEST(SnapshotText, WhatIsNoSnapshotIsRefused) {
  const std::string good = *encode_snapshot(full_snapshot());
  EXPECT_FALSE(decode_snapshot(""));
  EXPECT_FALSE(decode_snapshot("[]"));
  EXPECT_FALSE(decode_snapshot("{}"));
  EXPECT_FALSE(decode_snapshot(good.substr(0, good.size() - 1)));
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return decode_snapshot(text);
  };
  EXPECT_EQ(with("\"version\":1,\"id\"", "\"version\":2,\"id\"").error().code, Code::Unsupported);
  EXPECT_FALSE(with("\"parent\"", "\"parents\""));
  EXPECT_FALSE(with("\"files\"", "\"memories\""));
  EXPECT_FALSE(with("\"document\":", "\"extra\":1,\"document\":"));
  EXPECT_FALSE(with("\"bytes\":4096", "\"bytes\":-1"));
}

TEST(ShellStateText, KeepsWhatAShellWouldNotSetItself) {
  const std::string_view text(
      "/w/x\0PWD=/w/x\0A=1\0B=two = 2\0_=/usr/bin/env\0SHLVL=3\0"
      "BASH_FUNC_f%%=() { :; }\0",
      75);
  const auto state = parse_shell_state(text);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->cwd, "/w/x");
  ASSERT_EQ(state->env.size(), 2u);
  EXPECT_EQ(state->env[0], (plan::EnvEntry{"A", "1"}));
  EXPECT_EQ(state->env[1], (plan::EnvEntry{"B", "two = 2"}));
  EXPECT_FALSE(parse_shell_state("/w\0A=1"));
  EXPECT_EQ(parse_shell_state(std::string_view("relative\0", 9))->cwd, "");
}

}  // namespace
}  // namespace glovebox::session
