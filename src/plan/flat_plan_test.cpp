#include "plan/flat_plan.h"

#include "plan/example_spec_test_support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace glovebox::plan {
namespace {

LaunchPlan example() {
  SandboxSpec spec = command({"echo", "", "two words"});
  allow(spec, {"write=/w", "read=/w/secret/open"});
  deny(spec, {"read=/w/secret", "exec=/usr/share"});
  return *make_plan(spec, root_host());
}

TEST(FlatPlan, RoundTripsEveryStep) {
  const LaunchPlan plan = example();
  const auto bytes = encode(plan);
  const auto view = PlanView::decode(bytes);
  ASSERT_TRUE(view);
  ASSERT_EQ(view->box().size(), plan.box.size());
  for (std::size_t i = 0; i < plan.box.size(); ++i) {
    EXPECT_EQ(unflatten(*view, view->box()[i]), plan.box[i]);
  }
  ASSERT_EQ(view->argv().size(), 3u);
  EXPECT_STREQ(view->text(view->argv()[2]), "two words");
  ASSERT_EQ(view->trees().size(), plan.trees.size());
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    EXPECT_EQ(view->trees()[i].inode, plan.trees[i].source.inode);
    EXPECT_EQ((view->trees()[i].flags & kTreeKept) != 0,
              plan.trees[i].ownership == Ownership::Kept);
  }
  EXPECT_EQ(view->filter().size(), plan.filter.size());
}

TEST(FlatPlan, RefusesEveryTruncation) {
  const auto bytes = encode(example());
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(PlanView::decode(cut)) << size;
  }
}

TEST(FlatPlan, RefusesUnknownStepsAndVersions) {
  auto bytes = encode(example());
  FlatHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::size_t op_at = header.box.offset + offsetof(FlatStep, op);
  const std::uint32_t unknown = kLastOp + 1;
  std::memcpy(bytes.data() + op_at, &unknown, sizeof(unknown));
  EXPECT_FALSE(PlanView::decode(bytes));

  bytes = encode(example());
  header.version = kFlatVersion + 1;
  std::memcpy(bytes.data(), &header, sizeof(header));
  EXPECT_FALSE(PlanView::decode(bytes));
}

// Any change of any byte is refused or leaves a view whose every text and index stays inside.
TEST(FlatPlan, HostileBytesStayInside) {
  const auto good = encode(example());
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = good;
    for (int change = 0; change < 3; ++change) {
      bytes[random() % std::min<std::size_t>(bytes.size(), 2048)] =
          static_cast<std::byte>(random());
    }
    const auto view = PlanView::decode(bytes);
    if (!view) continue;
    const char* end = reinterpret_cast<const char*>(bytes.data() + bytes.size());
    for (const FlatStep& step : view->box()) {
      ASSERT_LT(view->text(step.text) + std::strlen(view->text(step.text)), end);
      ASSERT_LE(step.op, kLastOp);
    }
  }
}

TEST(FlatPlan, BaseIsComparedByItsStepsAlone) {
  LaunchPlan plan = example();
  const auto first = encode(plan);
  plan.argv.emplace_back("more");
  const auto second = encode(plan);
  plan.base.front().a = 1;
  const auto third = encode(plan);
  EXPECT_TRUE(PlanView::decode(first)->has_same_base(*PlanView::decode(second)));
  EXPECT_FALSE(PlanView::decode(first)->has_same_base(*PlanView::decode(third)));
}

std::vector<std::byte> encoded(const SandboxSpec& spec) {
  return encode(*make_plan(spec, root_host()));
}

bool same_shape(const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
  const auto first = PlanView::decode(one);
  const auto second = PlanView::decode(other);
  EXPECT_EQ(first->has_same_shape(*second), second->has_same_shape(*first));
  return first->has_same_shape(*second);
}

TEST(FlatPlan, ABoxThatIsHandedNothingCanBeBegunToItsEnd) {
  const auto bytes = encoded(command());
  const auto view = PlanView::decode(bytes);
  EXPECT_EQ(view->parkable_steps(), view->box().size());
}

TEST(FlatPlan, NothingOfARequestsTreesIsDoneAhead) {
  const auto bytes = encode(example());
  const auto view = PlanView::decode(bytes);
  const auto ahead = view->box().first(view->parkable_steps());
  ASSERT_FALSE(ahead.empty());
  EXPECT_EQ(ahead.back().op, static_cast<std::uint32_t>(Op::MountTerminals));
  for (const FlatStep& step : ahead) {
    EXPECT_NE(step.op, static_cast<std::uint32_t>(Op::AttachTree));
    EXPECT_EQ(std::string(view->text(step.text)).find("/w"), std::string::npos) << step.op;
  }
}

TEST(FlatPlan, BoxesThatDifferInWhatTheyRunOrAreHandedBeginAlike) {
  SandboxSpec other = command({"echo", "other words"});
  other.caller_env = {{"LANG", "C"}};
  other.lang = "de_DE.UTF-8";
  EXPECT_TRUE(same_shape(encoded(command()), encoded(other)));
  SandboxSpec first = command();
  SandboxSpec second = command();
  allow(first, {"write=/tmp/one"});
  allow(second, {"read=/tmp/two/deep"});
  EXPECT_TRUE(same_shape(encoded(first), encoded(second)));
}

TEST(FlatPlan, BoxesThatDifferInAnyWallDoNotBeginAlike) {
  const std::vector<std::byte> plain = encoded(command());
  const auto differs = [&](auto change) {
    SandboxSpec spec = command();
    change(spec);
    return !same_shape(plain, encoded(spec));
  };
  EXPECT_TRUE(differs([](SandboxSpec& spec) { spec.hostname = "other"; }));
  EXPECT_TRUE(differs([](SandboxSpec& spec) { spec.uid = 5; }));
  EXPECT_TRUE(differs([](SandboxSpec& spec) { spec.cwd = "/usr"; }));
  EXPECT_TRUE(differs([](SandboxSpec& spec) { spec.loopback = Loopback::Down; }));
  EXPECT_TRUE(differs([](SandboxSpec& spec) { spec.terminal = TerminalSize{}; }));
  for (const char* term : {"memory=64MiB", "pids=7", "open_files=99", "disk=1MiB", "read=/srv"}) {
    EXPECT_TRUE(differs([&](SandboxSpec& spec) { allow(spec, {term}); })) << term;
  }
  EXPECT_TRUE(differs([](SandboxSpec& spec) { allow(spec, {"connect=192.0.2.1:443"}); }));
  SandboxSpec agent;
  agent.resident = Resident::Agent;
  EXPECT_FALSE(same_shape(plain, encoded(agent)));
}

}  // namespace
}  // namespace glovebox::plan
