#include "policy/explain.h"

#include "authority/terms.h"

#include <gtest/gtest.h>

namespace glovebox::policy {
namespace {

CompiledPolicy compiled(std::string_view text) {
  auto file = compile(text, "x.yaml");
  if (!file) {
    ADD_FAILURE() << to_text(file.error());
    return {};
  }
  return file->sandboxes.front();
}

std::string answer(const CompiledPolicy& policy, std::string_view term) {
  return to_text(explain(policy, *authority::parse_term(term)));
}

TEST(Explain, NamesTheLineThatDecides) {
  const CompiledPolicy policy = compiled(R"(fs:
  read: [/srv, /srv/data]
  write: [/srv/out]
  deny: [/srv/private]
net:
  connect: ["*.example.com:443", "*.example.com:1-65535"]
  deny: ["bad.example.com:*"]
imports: ["numpy.*"]
memory: 1MiB
)");
  EXPECT_EQ(answer(policy, "read=/srv/x"),
            "read=/srv/x: allowed by 'allow read=/srv' (x.yaml:2:10)\n");
  EXPECT_EQ(answer(policy, "read=/srv/data/y"),
            "read=/srv/data/y: allowed by 'allow read=/srv/data' (x.yaml:2:16)\n");
  EXPECT_EQ(answer(policy, "read=/srv/out/y"),
            "read=/srv/out/y: allowed by 'allow write=/srv/out' (x.yaml:3:11)\n");
  EXPECT_EQ(
      answer(policy, "connect=a.example.com:443"),
      "connect=a.example.com:443: allowed by 'allow connect=*.example.com:443' (x.yaml:6:13)\n");
  EXPECT_EQ(answer(policy, "connect=a.example.com:80"),
            "connect=a.example.com:80: allowed by 'allow connect=*.example.com:*' (x.yaml:6:34)\n");
  EXPECT_EQ(answer(policy, "import=numpy.core"),
            "import=numpy.core: allowed by 'allow import=numpy.*' (x.yaml:8:11)\n");
  EXPECT_EQ(answer(policy, "memory=1MiB"),
            "memory=1048576: allowed by 'memory=1048576' (x.yaml:9:9)\n");
}

TEST(Explain, SaysWhatWouldHaveToBeGranted) {
  const CompiledPolicy policy =
      compiled("fs: {read: [/srv], deny: [/srv/private]}\nmemory: 1MiB\n");
  EXPECT_EQ(answer(policy, "write=/srv/x"),
            "write=/srv/x: not granted: no rule speaks of it\n"
            "  grant it with 'allow write=/srv/x'\n");
  EXPECT_EQ(
      answer(policy, "read=/srv/private/k"),
      "read=/srv/private/k: denied by 'deny read=/srv/private' (x.yaml:1:27)\n"
      "  the policy itself has to change: remove that rule, or grant a narrower place than it "
      "denies, such as 'allow read=/srv/private/k'; nothing handed in beside the policy lifts a "
      "denial\n");
  EXPECT_EQ(answer(policy, "memory=2MiB"),
            "memory=2097152: denied by 'memory=1048576' (x.yaml:2:9)\n"
            "  the policy has to set a larger limit\n");
  EXPECT_EQ(answer(policy, "pids=5"), "pids=5: allowed: the policy sets no limit\n");
}

TEST(Explain, KnowsWildcards) {
  const CompiledPolicy policy =
      compiled("fs:\n  read: [/srv, /srv/keep.key]\n  deny: [\"/srv/*.key\"]\n");
  EXPECT_EQ(explain(policy, *authority::parse_term("read=/srv/a.key")).rule,
            "deny read=/srv/*.key");
  EXPECT_EQ(explain(policy, *authority::parse_term("read=/srv/a.key")).where,
            (Where{"x.yaml", 3, 10}));
  EXPECT_EQ(explain(policy, *authority::parse_term("write=/srv/a.key/b")).where,
            (Where{"x.yaml", 3, 10}));
  EXPECT_EQ(answer(policy, "read=/srv/keep.key"),
            "read=/srv/keep.key: allowed by 'allow read=/srv/keep.key' (x.yaml:2:16)\n");
}

TEST(Explain, InheritedLinesKeepTheirPlace) {
  auto file = compile("defaults:\n  imports: [math]\nsandboxes:\n  a: {}\n  b:\n    extends: a\n",
                      "x.yaml");
  ASSERT_TRUE(file);
  EXPECT_EQ(explain(*file->find("b"), *authority::parse_term("import=math")).where,
            (Where{"x.yaml", 2, 13}));
}

std::string gained(std::string_view a, std::string_view b) {
  return to_text(difference(compiled(a).policy, compiled(b).policy));
}

TEST(Difference, SaysWhatTheSecondAllowsBeyondTheFirst) {
  EXPECT_EQ(gained("fs: {read: [/srv]}\nmemory: 1MiB", "fs: {write: [/srv]}\nimports: [os]"),
            "allow write=/srv\nallow import=os\nmemory: asks for no limit, 1048576 is held\n");
  EXPECT_EQ(gained("fs: {write: [/srv]}", "fs: {read: [/srv/a]}\npids: 5"), "");
  EXPECT_TRUE(difference(compiled("pids: 5").policy, compiled("pids: 5").policy).empty());
}

TEST(Difference, ComparesWildcardsAsWritten) {
  EXPECT_EQ(gained("fs: {read: [/srv], deny: [{read: \"/srv/*.key\"}]}",
                   "fs: {read: [/srv, \"/opt/*\"]}"),
            "allow read=/opt/*\nno longer: deny read=/srv/*.key\n");
  // A rule that only repeats the one above it counts when a denial by wildcard stands between.
  EXPECT_EQ(gained("fs: {read: [/srv], deny: [{read: \"/srv/*\"}]}",
                   "fs: {read: [/srv, /srv/x], deny: [{read: \"/srv/*\"}]}"),
            "allow read=/srv/x\n");
  EXPECT_EQ(gained("fs: {read: [/srv, /srv/x], deny: [{read: \"/srv/*\"}]}",
                   "fs: {read: [/srv], deny: [{read: \"/srv/*\"}]}"),
            "");
}

TEST(Difference, ComparesSettings) {
  EXPECT_EQ(gained("cpus: 1\nworkspace: ro\nbackend: microvm",
                   "cpus: 1.5\nworkspace: rw\nbackend: process\nwaive: [landlock]"),
            "cpus: 1.500 instead of 1.000\nwaives landlock\nworkspace: rw instead of ro\n"
            "backend: process instead of microvm\n");
  EXPECT_EQ(gained("workspace: rw\ncpus: 2", "workspace: ro\ncpus: 1"), "");
}

}  // namespace
}  // namespace glovebox::policy
