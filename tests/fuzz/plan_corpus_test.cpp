// The corpus of the plan fuzzer, run as a plain test.
//
// It holds encodings of real plans (seed-*), and blocks that the fuzzer found interesting. When the
// format changes, the seeds are written again:
//   GLOVEBOX_WRITE_CORPUS=tests/fuzz/corpus/plan glovebox_fuzz_corpus_test
//   --gtest_filter='PlanCorpus.*'
#include "fuzz/plan_properties.h"

#include "base/file.h"
#include "plan/example_spec_test_support.h"
#include "plan/flat_plan.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include <fcntl.h>

namespace glovebox::plan {
namespace {

std::span<const std::byte> as_block(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// Small plans of every shape, made by the planner itself.
std::map<std::string, std::vector<std::byte>> seeds() {
  const host::HostFacts root = root_host();
  const host::HostFacts user = user_host();
  std::map<std::string, std::vector<std::byte>> made;
  const auto add = [&](const char* name, const SandboxSpec& spec, const host::HostFacts& facts) {
    const auto plan = make_plan(spec, facts);
    ASSERT_TRUE(plan) << name << ": " << plan.error().message;
    made.emplace(name, encode(*plan));
  };
  add("seed-root", command(), root);
  add("seed-user", command({"sh", "-c", "exit 3"}), user);
  SandboxSpec trees = command({"cat", "/w/a"});
  allow(trees, {"write=/w", "read=/w/secret/open", "read=/srv/tools", "exec=/srv/tools",
                "memory=64MiB", "pids=20"});
  deny(trees, {"read=/w/secret", "exec=/usr/share"});
  add("seed-trees", trees, root);
  SandboxSpec agent;
  agent.resident = Resident::Agent;
  add("seed-agent", agent, root);
  host::HostFacts unified = root_host();
  unified.cgroups.version = host::CgroupVersion::V2;
  unified.cgroups.parents = {
      {"memory", "/cg"}, {"pids", "/cg"}, {"cpu", "/cg"}, {"cpuacct", "/cg"}};
  SandboxSpec limits = command();
  limits.cpus_milli = 1500;
  add("seed-unified", limits, unified);
  return made;
}

Result<void> write_seeds(const std::string& directory) {
  for (const auto& [name, bytes] : seeds()) {
    TRY(const UniqueFd file,
        open_file(directory + "/" + name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    TRY_VOID(write_all(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return {};
}

TEST(PlanCorpus, EveryBlockKeepsTheProperties) {
  if (const char* directory = std::getenv("GLOVEBOX_WRITE_CORPUS")) {
    const auto written = write_seeds(directory);
    ASSERT_TRUE(written) << written.error().message;
  }
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GLOVEBOX_FUZZ_CORPUS "/plan")) {
    const auto text = read_file(entry.path().string(), kMaxFlatBytes);
    ASSERT_TRUE(text) << entry.path();
    EXPECT_EQ(broken_property(as_block(*text)), "") << entry.path();
    ++count;
  }
  EXPECT_GT(count, 20);
}

// Seeds of an older format would all be refused at their first bytes, and test nothing.
TEST(PlanCorpus, SeedsAreOfThisFormat) {
  for (const auto& [name, bytes] : seeds()) {
    const auto text = read_file(std::string(GLOVEBOX_FUZZ_CORPUS "/plan/") + name, kMaxFlatBytes);
    ASSERT_TRUE(text) << name;
    EXPECT_TRUE(PlanView::decode(as_block(*text))) << name << ": write the seeds again";
  }
}

// The walk itself finds what it is for: a text that does not end within its section.
TEST(PlanCorpus, WalkReadsEveryPart) {
  for (const auto& [name, bytes] : seeds()) {
    const auto view = PlanView::decode(bytes);
    ASSERT_TRUE(view) << name;
    EXPECT_EQ(PlanWalk(*view).broken(), "") << name;
  }
  std::vector<std::byte> bytes = seeds().at("seed-trees");
  const auto view = PlanView::decode(bytes);
  ASSERT_TRUE(view);
  // Behind the decoder's back, as a decoder that forgot a check would let it through.
  auto* step = reinterpret_cast<FlatStep*>(bytes.data() + view->header().box.offset);
  step->other = view->header().strings.count;
  EXPECT_EQ(PlanWalk(*view).broken(), "a text that begins outside");
  step->other = 0;
  step->op = kLastOp + 1;
  EXPECT_EQ(PlanWalk(*view).broken(), "a step that nobody knows");
}

}  // namespace
}  // namespace glovebox::plan
