#include "policy/compile.h"

#include "authority/terms.h"
#include "policy/print.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace glovebox::policy {
namespace {

using authority::Effect;
using testing::ElementsAre;
using testing::HasSubstr;

PolicyFile compiled(std::string_view text) {
  auto file = compile(text, "x.yaml");
  if (!file) ADD_FAILURE() << to_text(file.error());
  return file ? *std::move(file) : PolicyFile{"", {CompiledPolicy{}}};
}

// The rules of a flat document, or of the sandbox named, one a line.
std::string rules(std::string_view text, std::string_view name = "") {
  const PolicyFile file = compiled(text);
  const CompiledPolicy* found = file.find(name);
  return found == nullptr ? "no such sandbox" : to_text(found->policy);
}

std::string refusal(std::string_view text) {
  const auto file = compile(text, "x.yaml");
  return file ? "accepted" : to_text(file.error());
}

TEST(Compile, AFlatDocumentIsOneSandboxWithoutAName) {
  const PolicyFile file = compiled("version: 1\nfs: {read: [/srv]}\n");
  ASSERT_EQ(file.sandboxes.size(), 1U);
  EXPECT_EQ(file.sandboxes[0].policy.name, "");
  EXPECT_EQ(to_text(file.sandboxes[0].policy), "allow read=/srv\n");
}

TEST(Compile, EverySectionGivesItsCapabilities) {
  EXPECT_EQ(rules(R"(
fs:
  allow: [/w]
  read: [/r]
  write: /w2
  exec: [/x]
  deny: [/w/d, {write: /w/ro}, {exec: [/x/a, /x/b]}]
net:
  connect: ["api.example.com:443", "10.0.0.0/8:1-1024"]
  listen: "127.0.0.1:8080"
  resolve: ["*.example.com"]
  unix: [/run/db.sock]
  deny: ["10.1.0.0/16:*", {resolve: private.example.com}, {listen: "127.0.0.1:22"}]
imports: [json, "numpy.*", {deny: "numpy.ctypeslib"}]
env: [HOME, "LANG=C.UTF-8", {deny: LD_PRELOAD}]
secrets: [api-key]
subprocess: [git, {shell: [make]}, {deny: rm}]
channels: [jobs]
clock: allow
random: deny
)"),
            R"(allow read=/r
allow unix=/run/db.sock
allow write=/w
deny read=/w/d
deny exec=/w/d
deny unix=/w/d
deny write=/w/ro
allow write=/w2
allow exec=/x
deny exec=/x/a
deny exec=/x/b
allow connect=api.example.com:443
allow connect=10.0.0.0/8:1-1024
deny connect=10.1.0.0/16:*
deny listen=127.0.0.1:22
allow listen=127.0.0.1:8080
allow resolve=*.example.com
deny resolve=private.example.com
allow import=json
allow import=numpy.*
deny import=numpy.ctypeslib
allow env=HOME
allow env=LANG=C.UTF-8
deny env=LD_PRELOAD
allow secret=api-key
allow subprocess=git
allow subprocess_shell=make
deny subprocess=rm
allow clock
deny random
allow channel=jobs
)");
}

TEST(Compile, LimitsAndSettings) {
  EXPECT_EQ(
      rules(R"(
cpu: 1.5s
memory: 256MiB
pids: 64
wall: 30
disk: "1GB"
inodes: 10
output: 1KiB
open_files: 12
connections: 3
egress_bytes: 7
connect_rate: 20/s
cpus: 1.5
backend: microvm
workspace: overlay
waive: [landlock, limit.memory]
)"),
      "cpu=1500ms\nmemory=256MiB\npids=64\nwall=30s\ndisk=1000000000B\ninodes=10\noutput=1KiB\n"
      "open_files=12\nconnections=3\negress_bytes=7B\nconnect_rate=20/s\ncpus=1.500\n"
      "backend=microvm\nworkspace=overlay\nwaive=landlock\nwaive=limit.memory\n");
}

TEST(Compile, RulesAreTheWordsOfTheCommandLineByTheLetter) {
  EXPECT_EQ(rules("rules: ['allow read=/srv/[id]', 'deny connect=*:25', 'silent read=/srv/[id]/x', "
                  "'allow memory=1KiB']"),
            "allow read=/srv/[id]\nsilent read=/srv/[id]/x\ndeny connect=*:25\nmemory=1KiB\n");
  EXPECT_THAT(refusal("rules: ['allow read=/srv/*']"), HasSubstr("x.yaml:1:9: path '/srv/*'"));
  EXPECT_THAT(refusal("rules: ['permit read=/srv']"), HasSubstr("write 'allow KIND=VALUE'"));
  EXPECT_THAT(refusal("rules: ['deny pids=5']"), HasSubstr("a budget is set, not denied"));
}

TEST(Compile, SandboxesInheritDefaultsAndParents) {
  const std::string text = R"(
version: 1
defaults: {imports: [math], pids: 5, wall: 10s, backend: process}
sandboxes:
  base: {fs: {read: [/srv]}, pids: 50, workspace: ro, waive: [landlock]}
  child: {extends: base, imports: [json], wall: 20s, workspace: rw}
  grandchild: {extends: child, fs: {deny: [/srv/private]}, pids: 500}
)";
  EXPECT_EQ(rules(text, "base"),
            "allow read=/srv\nallow import=math\npids=50\nwall=10s\nbackend=process\n"
            "workspace=ro\nwaive=landlock\n");
  EXPECT_EQ(rules(text, "child"),
            "allow read=/srv\nallow import=json\nallow import=math\npids=50\nwall=20s\n"
            "backend=process\nworkspace=rw\nwaive=landlock\n");
  EXPECT_EQ(rules(text, "grandchild"),
            "allow read=/srv\ndeny read=/srv/private\ndeny exec=/srv/private\n"
            "deny unix=/srv/private\nallow import=json\nallow import=math\npids=500\nwall=20s\n"
            "backend=process\nworkspace=rw\nwaive=landlock\n");
}

TEST(Compile, DefaultsHoldForAFlatDocumentToo) {
  EXPECT_EQ(rules("defaults: {imports: [math]}\nimports: [json]\n"),
            "allow import=json\nallow import=math\n");
}

TEST(Compile, PatternsStayOutOfTheAuthority) {
  const PolicyFile file =
      compiled("fs: {read: [\"/srv/**/*.csv\"], deny: [\"/srv/private/**\", \"/srv/*.key\"]}");
  const Policy& policy = file.sandboxes[0].policy;
  EXPECT_EQ(authority::to_text(policy.authority),
            "deny read=/srv/private\ndeny exec=/srv/private\ndeny unix=/srv/private\n");
  std::vector<std::string> lines;
  lines.reserve(policy.path_rules.size());
  for (const PathRule& rule : policy.path_rules) lines.push_back(to_text(rule));
  EXPECT_THAT(lines, ElementsAre("allow read=/srv/**/*.csv", "deny read=/srv/*.key",
                                 "deny exec=/srv/*.key", "deny unix=/srv/*.key"));
}

Effect verdict(const Policy& policy, std::string_view term) {
  return decide(policy, *authority::parse_term(term));
}

TEST(Compile, NamedBeatsMatchedAtTheSameDepthAndDeeperBeatsBoth) {
  const PolicyFile file = compiled(R"(
fs:
  read: [/srv, /srv/keep, /srv/a/b/c, "/srv/x*"]
  deny: ["/srv/k*", "/srv/a/*", "/srv/*y"]
)");
  const Policy& policy = file.sandboxes[0].policy;
  EXPECT_EQ(verdict(policy, "read=/srv/keep"), Effect::Allow);  // named
  EXPECT_EQ(verdict(policy, "read=/srv/keep/below"), Effect::Allow);
  EXPECT_EQ(verdict(policy, "write=/srv/keep"), Effect::Deny);  // named for reading alone
  EXPECT_EQ(verdict(policy, "read=/srv/kitchen"), Effect::Deny);
  EXPECT_EQ(verdict(policy, "read=/srv/kitchen/below"), Effect::Deny);
  EXPECT_EQ(verdict(policy, "read=/srv/other"), Effect::Allow);
  EXPECT_EQ(verdict(policy, "read=/srv/a/b"), Effect::Deny);
  EXPECT_EQ(verdict(policy, "read=/srv/a/b/c"), Effect::Allow);  // named beneath a match
  EXPECT_EQ(verdict(policy, "read=/srv/a/b/d"), Effect::Deny);
  EXPECT_EQ(verdict(policy, "read=/srv/xy"), Effect::Deny);  // two patterns: deny
  EXPECT_EQ(verdict(policy, "exec=/srv/other"), Effect::Silent);
}

TEST(Compile, AnEmptySectionIsNone) {
  EXPECT_EQ(rules("fs:\nnet: []\nimports: ~\nenv: {}\ndefaults:\n"), "");
  EXPECT_EQ(rules("net: {connect: [], deny: }"), "");
}

TEST(Select, TheOnlyOneOrTheDefaultOrByName) {
  const PolicyFile one = compiled("sandboxes: {a: {}}");
  EXPECT_EQ(select_sandbox(one, "")->policy.name, "a");
  const PolicyFile two = compiled("sandboxes: {a: {}, default: {}}");
  EXPECT_EQ(select_sandbox(two, "")->policy.name, "default");
  EXPECT_EQ(select_sandbox(two, "a")->policy.name, "a");
  EXPECT_EQ(to_text(select_sandbox(two, "defualt").error()),
            "x.yaml: has no sandbox 'defualt'; did you mean 'default'?\n");
  EXPECT_EQ(to_text(select_sandbox(compiled("sandboxes: {a: {}, b: {}}"), "").error()),
            "x.yaml: holds several sandboxes and none named 'default'; name one of: a, b\n");
  EXPECT_EQ(to_text(select_sandbox(compiled("pids: 5"), "a").error()),
            "x.yaml: has no sandbox 'a'; it is a single sandbox without a name\n");
}

// ---- Golden diagnostics: the whole text, so that a change of wording is seen.

TEST(CompileDiagnostics, UnknownKeysAreNamedWithTheNearest) {
  EXPECT_EQ(refusal("net:\n  conect: [\"a.example.com:1\"]\nmem: 5\nzebra: 1\n"),
            "x.yaml:2:3: unknown key 'conect'; did you mean 'connect'?\n"
            "x.yaml:3:1: unknown key 'mem'; did you mean 'memory'?\n"
            "x.yaml:4:1: unknown key 'zebra'; one of: description, extends, fs, net, tcp, imports, "
            "env, secrets, subprocess, channels, syscalls, clock, random, rules, cpu_ms, cpu, "
            "memory, wall, "
            "pids, disk, inodes, output, open_files, connections, egress_bytes, connect_rate, "
            "cpus, backend, workspace, waive, allows, refuses, version, defaults, sandboxes\n");
  EXPECT_EQ(refusal("fs: [{raed: /srv}]\nsubprocess: {shel: [x]}\nfs2: 1"),
            "x.yaml:1:7: unknown key 'raed'; did you mean 'read'?\n"
            "x.yaml:2:14: unknown key 'shel'; did you mean 'shell'?\n"
            "x.yaml:3:1: unknown key 'fs2'; did you mean 'fs'?\n");
  EXPECT_EQ(refusal("sandboxs: {a: {}}\n"),
            "x.yaml:1:1: unknown key 'sandboxs'; did you mean 'sandboxes'?\n");
  EXPECT_EQ(refusal("fs: {deny: [{wirte: /a}]}"),
            "x.yaml:1:14: unknown key 'wirte'; did you mean 'write'?\n");
}

TEST(CompileDiagnostics, WrongTypesAreNamed) {
  EXPECT_EQ(
      refusal("fs: /srv\nimports: json\nenv: [1, true, [x]]\nmemory: [1]\nextends: x\n"),
      "x.yaml:1:5: 'fs' must be a list, not text; such as fs: {read: [/srv/data]}\n"
      "x.yaml:2:10: 'imports' must be a list, not text; such as imports: [json]\n"
      "x.yaml:3:7: a value of 'allow' in 'env' must be text, not a number; put it into quotes: "
      "\"1\"\n"
      "x.yaml:3:10: a value of 'allow' in 'env' must be text, not a truth value; put it into "
      "quotes: \"true\"\n"
      "x.yaml:3:16: a value of 'allow' in 'env' must be text, not a list\n"
      "x.yaml:4:9: 'memory' must be an amount, not a list\n"
      "x.yaml:5:1: 'extends' needs a document with 'sandboxes'\n");
  EXPECT_EQ(refusal("[a]"), "x.yaml:1:1: a policy document must be a mapping, not a list\n");
  EXPECT_EQ(refusal("sandboxes: []"),
            "x.yaml:1:12: 'sandboxes' must be a mapping of at least one sandbox\n");
  EXPECT_EQ(refusal("sandboxes: {a: 5}"),
            "x.yaml:1:16: a sandbox must be a mapping, not a number\n");
  EXPECT_EQ(
      refusal("fs: [/srv, {read: /a, write: /b}]"),
      "x.yaml:1:6: an entry of 'fs' must be one action with its value, not text; such as fs: "
      "{read: [/srv/data]}\n"
      "x.yaml:1:12: an entry of 'fs' must be one action with its value, not a mapping of 2; such "
      "as fs: {read: [/srv/data]}\n");
}

TEST(CompileDiagnostics, BadValuesCarryTheRemedy) {
  EXPECT_EQ(refusal("fs: {read: [srv, ~/x, /a/../b]}\n"),
            "x.yaml:1:13: path 'srv': not absolute; start it with '/'\n"
            "x.yaml:1:18: path '~/x': '~' is not taken; write the directory it stands for\n"
            "x.yaml:1:23: path '/a/../b': '..' is not allowed; write the path it leads to\n");
  EXPECT_EQ(
      refusal("memory: lots\npids: 0\ncpu_ms: true\ncpus: -1\nwall: 0100\n"),
      "x.yaml:1:9: memory budget 'lots': 'lots' is not an amount of bytes; such as 256MiB\n"
      "x.yaml:2:7: pids budget: must be positive\n"
      "x.yaml:3:9: 'cpu_ms' is 'true'; write a positive whole number of milliseconds\n"
      "x.yaml:4:7: 'cpus' is '-1'; write a positive number, such as 1.5\n"
      "x.yaml:5:7: 'wall' starts with a zero: '0100'; readers differ on what that means; drop "
      "the zero\n");
  EXPECT_EQ(refusal("backend: proces\nworkspace: rwx\nclock: yes\n"),
            "x.yaml:1:10: 'backend' is 'proces'; did you mean 'process'?\n"
            "x.yaml:2:12: 'workspace' is 'rwx'; did you mean 'rw'?\n"
            "x.yaml:3:8: 'clock' is 'yes'; one of: allow, deny\n");
  EXPECT_THAT(refusal("net: {connect: [\"example.com:0\"]}"), HasSubstr("x.yaml:1:17: "));
}

TEST(CompileDiagnostics, VersionsOtherThanKnownAreRefused) {
  EXPECT_EQ(refusal("version: 2\n"), "x.yaml:1:10: unsupported version '2'; write 1\n");
  EXPECT_EQ(refusal("version: [1]\n"), "x.yaml:1:10: unsupported version a list; write 1\n");
  for (const std::string_view known : {"1", "1.0", "0.1", "\"1\"", "\"1.0\"", "'0.1'"}) {
    EXPECT_EQ(refusal(fmt::format("version: {}\n", known)), "accepted") << known;
  }
}

TEST(CompileDiagnostics, ConflictsNameBothLines) {
  EXPECT_EQ(
      refusal("fs:\n  - allow: /srv\n  - deny: /srv\n"),
      "x.yaml:3:11: 'deny read=/srv' contradicts 'allow write=/srv' of x.yaml:2:12; keep one\n");
  EXPECT_EQ(refusal("net:\n  connect: [\"a.example.com:443\"]\n  deny: [\"a.example.com:443\"]\n"),
            "x.yaml:3:10: 'deny connect=a.example.com:443' contradicts 'allow "
            "connect=a.example.com:443' of x.yaml:2:13; keep one\n");
  EXPECT_EQ(refusal("fs: {read: [\"/srv/*\"], deny: [\"/srv/*\"]}"),
            "x.yaml:1:31: 'deny read=/srv/*' contradicts 'allow read=/srv/*' of x.yaml:1:13; keep "
            "one\n");
  EXPECT_EQ(refusal("imports: [json, {deny: json}]"),
            "x.yaml:1:24: 'deny import=json' contradicts 'allow import=json' of x.yaml:1:11; keep "
            "one\n");
  // Different uses of one path, or different ranges of one host, are no conflict.
  EXPECT_EQ(refusal("fs: {read: [/srv], deny: [{write: /srv}, {exec: /srv}]}"), "accepted");
  EXPECT_EQ(refusal("fs: [{read: /srv}, {write: /srv}, {allow: /srv}]"), "accepted");
  EXPECT_EQ(refusal("net: {connect: [\"*:*\"], deny: [\"*:25\"]}"), "accepted");
}

TEST(CompileDiagnostics, AConflictAmongInheritedRulesIsToldOnce) {
  EXPECT_EQ(refusal("sandboxes:\n  a:\n    fs: [{read: /x}]\n  b:\n    extends: a\n    fs: [{deny: "
                    "/x}]\n  c: {extends: b}\n  d: {extends: b}\n"),
            "x.yaml:6:17: 'deny read=/x' contradicts 'allow read=/x' of x.yaml:3:17; keep one\n");
}

TEST(CompileDiagnostics, ParentsMustBeThereAndNotOneself) {
  EXPECT_EQ(refusal("sandboxes:\n  base: {}\n  job: {extends: bsae}\n"),
            "x.yaml:3:18: unknown parent sandbox 'bsae'; did you mean 'base'?\n");
  EXPECT_EQ(
      refusal("sandboxes:\n  a: {extends: b}\n  b: {extends: a}\n  c: {extends: a}\n"),
      "x.yaml:2:16: 'a' extends itself, by way of 'b'; a sandbox cannot be its own ancestor\n"
      "x.yaml:3:16: 'b' extends itself, by way of 'a'; a sandbox cannot be its own ancestor\n");
  EXPECT_THAT(refusal("sandboxes: {a: {extends: a}}"), HasSubstr("'a' extends itself"));
}

TEST(CompileDiagnostics, KeysMustStandWhereTheyMean) {
  EXPECT_EQ(
      refusal("defaults: {extends: a, description: x, allows: []}\nfs: {}\nsandboxes: {a: {}}\n"),
      "x.yaml:1:12: 'extends' cannot stand in 'defaults'; it belongs to one sandbox\n"
      "x.yaml:1:24: 'description' cannot stand in 'defaults'; it belongs to one sandbox\n"
      "x.yaml:1:40: 'allows' cannot stand in 'defaults'; it belongs to one sandbox\n"
      "x.yaml:2:1: 'fs' stands beside 'sandboxes'; put it into a sandbox, or into 'defaults' for "
      "all of them\n");
  EXPECT_EQ(refusal("net: []\ntcp: []\n"),
            "x.yaml:2:6: 'net' and 'tcp' are the same section; keep 'net'\n");
  EXPECT_EQ(
      refusal("cpu: 5s\ncpu_ms: 5\n"),
      "x.yaml:2:9: 'cpu_ms' repeats a limit that is set already; 'cpu' and 'cpu_ms' are the same "
      "limit; keep one\n");
  EXPECT_THAT(refusal("sandboxes: {\"a b\": {}}"), HasSubstr("the name of a sandbox is 'a b'"));
}

TEST(CompileDiagnostics, ExamplesMustHold) {
  EXPECT_EQ(refusal("fs: {read: [/srv], deny: [/srv/p, \"/srv/*.key\"]}\n"
                    "allows: [read=/srv/p, write=/srv, read=/srv/x.key, read=/srv/a]\n"
                    "refuses: [read=/srv/a, read=/srv/x.key]\n"),
            "x.yaml:2:10: the example 'read=/srv/p' is not allowed; a rule denies it\n"
            "x.yaml:2:23: the example 'write=/srv' is not allowed; no rule grants it\n"
            "x.yaml:2:35: the example 'read=/srv/x.key' is not allowed; a rule denies it\n"
            "x.yaml:3:11: the example 'read=/srv/a' is not refused; a rule grants it\n");
  EXPECT_THAT(refusal("allows: [reed=/x]"), HasSubstr("x.yaml:1:10: 'reed': no such kind"));
}

TEST(CompileDiagnostics, OneBadSandboxRefusesTheFile) {
  EXPECT_EQ(refusal("sandboxes:\n  good: {pids: 5}\n  bad: {pids: many}\n").substr(0, 11),
            "x.yaml:3:15");
}

TEST(CompileBounds, ChainsOfParentsCannotMultiplyWithoutBound) {
  std::string text = "sandboxes:\n  s0:\n    fs: {read: [";
  for (int i = 0; i < 500; ++i) text += fmt::format("/d{},", i);
  text += "]}\n";
  for (int i = 1; i < 500; ++i) text += fmt::format("  s{}: {{extends: s{}}}\n", i, i - 1);
  EXPECT_THAT(refusal(text), HasSubstr("more than 50000 rules in one document"));
}

TEST(CompileBounds, PatternsAndSandboxesAreCounted) {
  std::string patterns = "fs: {read: [";
  for (std::size_t i = 0; i <= kMaxPatterns; ++i) patterns += fmt::format("/d{}/*,", i);
  EXPECT_THAT(refusal(patterns + "]}"),
              HasSubstr("257 paths with wildcards, at most 256 are taken"));
  std::string sandboxes = "sandboxes:\n";
  for (std::size_t i = 0; i <= kMaxSandboxes; ++i) sandboxes += fmt::format("  s{}: {{}}\n", i);
  EXPECT_THAT(refusal(sandboxes), HasSubstr("1001 sandboxes, at most 1000 are taken"));
  std::string rules = "fs: {read: [";
  for (int i = 0; i <= 10'000; ++i) rules += fmt::format("/d{},", i);
  EXPECT_THAT(refusal(rules + "]}"), HasSubstr("10001 rules, at most 10000 are taken"));
}

TEST(CompileBounds, AChainOfAThousandParentsIsFine) {
  std::string text = "sandboxes:\n  s0: {}\n";
  for (int i = 1; i < 1000; ++i) text += fmt::format("  s{}: {{extends: s{}}}\n", i, i - 1);
  EXPECT_EQ(refusal(text), "accepted");
}

}  // namespace
}  // namespace glovebox::policy
