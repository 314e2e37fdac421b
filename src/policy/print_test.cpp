#include "policy/print.h"

#include "authority/json_codec.h"
#include "authority/terms.h"
#include "base/plain_text.h"
#include "policy/compile.h"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace glovebox::policy {
namespace {

using authority::AuthoritySet;
using authority::Effect;
using authority::parse_term;
using authority::Rule;

Policy compiled(std::string_view text) {
  auto file = compile(text, "x.yaml");
  if (!file) {
    ADD_FAILURE() << to_text(file.error()) << "\n" << text;
    return {};
  }
  return file->sandboxes.front().policy;
}

TEST(Print, YamlIsForPeople) {
  const Policy policy = compiled(R"(
description: "Jobs: nightly"
fs: {read: [/srv, "/srv/*.csv"], deny: [/srv/p, {write: "/data/a b"}]}
net: {connect: ["a.example.com:443"], deny: [{listen: "127.0.0.1:22"}]}
env: ["A=1\n2", {deny: B}]
subprocess: [{shell: make}, "7"]
clock: allow
memory: 256MiB
wall: 1500ms
pids: 5
cpus: 0.5
workspace: ro
waive: [landlock]
)");
  EXPECT_EQ(to_yaml(policy), R"(version: 1
description: "Jobs: nightly"
fs:
  deny:
    - write: "/data/a b"
    - /srv/p
  read:
    - /srv
    - "/srv/*.csv"
net:
  connect:
    - "a.example.com:443"
  deny:
    - listen: "127.0.0.1:22"
env:
  - "A=1\n2"
  - deny: B
subprocess:
  - "7"
  - shell: make
clock: allow
memory: 256MiB
pids: 5
wall: 1500ms
cpus: 0.500
workspace: ro
waive:
  - landlock
)");
}

TEST(Print, ANamedPolicyStaysNamed) {
  Policy policy = compiled("sandboxes: {job: {imports: [json]}}");
  EXPECT_EQ(to_yaml(policy), "version: 1\nsandboxes:\n  job:\n    imports:\n      - json\n");
  EXPECT_EQ(to_json(policy), R"({"version":1,"sandboxes":{"job":{"imports":["json"]}}})");
  policy.authority = {};
  EXPECT_EQ(compiled(to_yaml(policy)), policy);
  EXPECT_EQ(compiled(to_json(policy)), policy);
}

TEST(Digest, IsStableAcrossSpellings) {
  const std::string first = *digest(compiled("fs: {read: [/a, /b]}\nwall: 30s"));
  EXPECT_EQ(first,
            *digest(compiled("description: x\nwall: 30000ms\nfs: [{read: /b/}, {read: /a/**}]")));
  EXPECT_EQ(first, *digest(compiled("sandboxes: {x: {fs: {read: [/a, /b, /a/c]}, wall: 30}}")));
  EXPECT_THAT(first, testing::MatchesRegex("sha256:[0-9a-f]+"));
  // Changing this line changes what people pinned: a new digest needs a reason.
  EXPECT_EQ(first, "sha256:af947c968fcd855e94a7468f0b44489610826bf89b853d9f7e8657645b433d05");
}

TEST(Digest, TellsApartWhatDiffers) {
  std::set<std::string> digests;
  const std::vector<std::string_view> texts{"{}",
                                            "pids: 5",
                                            "cpus: 5",
                                            "backend: process",
                                            "workspace: rw",
                                            "workspace: ro",
                                            "waive: [x]",
                                            "fs: {read: [/a]}",
                                            "fs: {write: [/a]}",
                                            "fs: {read: [\"/a*\"]}",
                                            "fs: {deny: [{read: \"/a*\"}]}"};
  for (const std::string_view text : texts) digests.insert(*digest(compiled(text)));
  EXPECT_EQ(digests.size(), texts.size());
}

// ---- The round trip, on random policies of every kind.

using Random32 = std::mt19937;

std::size_t below(Random32& random, std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
}

template <class T>
const T& pick(Random32& random, const std::vector<T>& from) {
  return from[below(random, from.size())];
}

const std::vector<std::string> kTerms{"read=/a",
                                      "read=/a/b",
                                      "read=/a/b/c",
                                      "write=/a",
                                      "write=/a/b",
                                      "write=/",
                                      "exec=/a",
                                      "exec=/a/b",
                                      "unix=/a/b",
                                      "unix=/run",
                                      "read=/srv/[id]",
                                      "read=/x/{a,b}",
                                      "read=/with space/\xc3\xbc:#'\"\\",
                                      "connect=example.com:443",
                                      "connect=*.example.com:1-1024",
                                      "connect=*:*",
                                      "connect=*.:80",
                                      "connect=10.0.0.0/8:80-90",
                                      "connect=10.1.0.0/16:85",
                                      "connect=[fd00::/8]:*",
                                      "connect=[::1]:22",
                                      "listen=127.0.0.1:8000",
                                      "listen=*:*",
                                      "listen=[::1]:1-9",
                                      "resolve=*",
                                      "resolve=example.com",
                                      "resolve=*.example.com",
                                      "import=*",
                                      "import=json",
                                      "import=numpy.*",
                                      "import=numpy.core",
                                      "env=HOME",
                                      "env=HOME=/x",
                                      "env=A=",
                                      "env=A=1\n2\t:'\" #",
                                      "env=A=true",
                                      "env=A=~",
                                      "secret=key",
                                      "secret=123",
                                      "secret=1e3",
                                      "subprocess=git",
                                      "subprocess=7",
                                      "subprocess=/bin/sh -c",
                                      "subprocess_shell=git",
                                      "subprocess_shell=make",
                                      "clock",
                                      "random",
                                      "channel=jobs",
                                      "channel=0x1f",
                                      "syscalls=numa",
                                      "syscalls=sysv-ipc"};

const std::vector<std::string> kPatterns{"/a/*",    "/a/?",   "/**/c",  "/*/b/*",
                                         "/a/**/b", "/srv/*", "/x y/*", "/a/*:#"};

Effect random_effect(Random32& random, bool with_silent) {
  const std::size_t roll = below(random, with_silent ? 10 : 8);
  return roll < 5 ? Effect::Allow : roll < 8 ? Effect::Deny : Effect::Silent;
}

Policy random_policy(Random32& random) {
  Policy policy;
  const bool with_silent = below(random, 3) == 0;
  std::vector<Rule> rules;
  for (std::size_t i = below(random, 12); i > 0; --i) {
    rules.push_back({random_effect(random, with_silent), *parse_term(pick(random, kTerms))});
  }
  for (const authority::BudgetInfo& info : authority::kBudgets) {
    if (below(random, 4) != 0) continue;
    const std::uint64_t amount = (1 + below(random, 3000)) * (below(random, 2) == 0 ? 1 : 1024);
    rules.push_back({Effect::Allow, *authority::make_budget(info.kind, amount)});
  }
  policy.authority = *AuthoritySet::from_rules(rules);
  for (std::size_t i = below(random, 4); i > 0; --i) {
    policy.path_rules.push_back({*PathPattern::parse(pick(random, kPatterns)),
                                 static_cast<PathUse>(below(random, 4)),
                                 random_effect(random, false)});
  }
  if (below(random, 2) == 0)
    policy.name = pick<std::string>(random, {"a", "x.y-z_1", "123", "true"});
  if (below(random, 2) == 0) {
    policy.description =
        pick<std::string>(random, {"d", "1", "a: b # c", "two\nlines", "\xc3\xbc\"\\"});
  }
  if (below(random, 3) == 0) policy.cpus_milli = 1 + below(random, 5000);
  if (below(random, 3) == 0) policy.backend = static_cast<Backend>(below(random, 3));
  if (below(random, 3) == 0) policy.workspace = static_cast<WorkspaceMode>(below(random, 3));
  if (below(random, 3) == 0) policy.waived = {"landlock", "limit.memory"};
  normalise(policy);
  return policy;
}

unsigned first_seed() {
  const char* seed = std::getenv("GLOVEBOX_TEST_SEED");
  return seed == nullptr ? 1 : static_cast<unsigned>(std::strtoul(seed, nullptr, 10));
}

#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned kCases = 2'000;
#else
constexpr unsigned kCases = 12'000;
#endif

TEST(PrintProperty, EveryPolicyCompilesBackToItself) {
  for (unsigned i = 0; i < kCases; ++i) {
    const unsigned seed = first_seed() + i;
    Random32 random(seed);
    const Policy policy = random_policy(random);
    const Policy from_yaml = compiled(to_yaml(policy));
    ASSERT_EQ(from_yaml, policy) << "seed " << seed << "\n"
                                 << to_yaml(policy) << "\nread as\n"
                                 << to_yaml(from_yaml);
    ASSERT_EQ(compiled(to_json(policy)), policy) << "seed " << seed << "\n" << to_json(policy);
    ASSERT_EQ(*digest(from_yaml), *digest(policy)) << "seed " << seed;
  }
}

TEST(PrintProperty, JoinedPoliciesCompileBackToThemselvesToo) {
  for (unsigned i = 0; i < kCases / 4; ++i) {
    const unsigned seed = first_seed() + i;
    Random32 random(seed);
    Policy policy = random_policy(random);
    const Policy other = random_policy(random);
    policy.authority = below(random, 2) == 0 ? policy.authority.attenuate(other.authority)
                                             : policy.authority.unite(other.authority);
    normalise(policy);
    ASSERT_EQ(compiled(to_yaml(policy)), policy) << "seed " << seed << "\n" << to_yaml(policy);
  }
}

TEST(PrintProperty, NormaliseChangesANormalPolicyNoMore) {
  for (unsigned i = 0; i < kCases / 4; ++i) {
    Random32 random(first_seed() + i);
    const Policy policy = random_policy(random);
    Policy again = policy;
    normalise(again);
    ASSERT_EQ(again, policy) << to_yaml(policy);
  }
}

TEST(PrintProperty, TermsCoverEveryKind) {
  std::set<std::string_view> words;
  for (const std::string& term : kTerms) words.insert(authority::term_word(*parse_term(term)));
  for (const authority::BudgetInfo& info : authority::kBudgets) words.insert(info.word);
  for (const std::string_view word : authority::term_words())
    EXPECT_TRUE(words.contains(word)) << word;
}

}  // namespace
}  // namespace glovebox::policy
