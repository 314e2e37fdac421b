// docs/reference/launch-steps.md says why each step stands where it stands. It can only be right
// while it names the steps that exist, in the order in which they run.
#include "base/file.h"
#include "plan/example_spec_test_support.h"
#include "plan/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace glovebox::plan {
namespace {

using Names = std::vector<std::string>;

std::string document() {
  const auto text = read_file(GLOVEBOX_LAUNCH_STEPS_DOC);
  EXPECT_TRUE(text) << "cannot read " << GLOVEBOX_LAUNCH_STEPS_DOC;
  return text ? *text : "";
}

// The names in the table below one heading: the rows that start with "| `name`".
Names names_below(const std::string& text, const std::string& heading) {
  const std::size_t start = text.find("\n## " + heading + "\n");
  EXPECT_NE(start, std::string::npos) << "no heading '" << heading << "'";
  if (start == std::string::npos) return {};
  const std::size_t end = std::min(text.find("\n## ", start + 1), text.size());
  const std::string mark = "\n| `";
  Names names;
  for (std::size_t at = text.find(mark, start); at < end; at = text.find(mark, at + 1)) {
    const std::size_t name = at + mark.size();
    names.push_back(text.substr(name, text.find('`', name) - name));
  }
  return names;
}

Names names_in_order(const std::vector<Step>& steps) {
  Names names;
  for (const Step& step : steps) {
    const std::string name(to_text(step.op));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

// A plan with every kind of step in it.
LaunchPlan fullest_plan() {
  SandboxSpec spec = command();
  allow(spec, {"write=/srv/work", "read=/var/data/one.txt", "connect=api.example:443"});
  deny(spec, {"read=/srv/work/secret", "read=/srv/work/sub/secret"});
  const auto directory = [](const char* path, std::uint64_t inode) {
    return host::PathFacts{
        .path = path, .kind = host::PathKind::Directory, .device = 1, .inode = inode};
  };
  spec.workspaces = {
      {directory("/work", 7), WorkspaceMode::Overlay, "", directory("/layers/1/box", 8)}};
  spec.workspaces.front().backing = LayerBacking::Memory;
  spec.terminal = TerminalSize{};
  host::HostFacts facts = root_host();
  facts.name_files = {{"/etc/resolv.conf", ""}};
  auto plan = make_plan(spec, facts);
  EXPECT_TRUE(plan) << plan.error().message;
  return *std::move(plan);
}

TEST(LaunchStepsDocument, NamesEveryOperationAndNoOther) {
  const std::string text = document();
  Names documented;
  for (const char* heading : {"First", "The base view", "The box"}) {
    for (std::string& name : names_below(text, heading)) documented.push_back(std::move(name));
  }
  std::sort(documented.begin(), documented.end());
  documented.erase(std::unique(documented.begin(), documented.end()), documented.end());

  Names known;
  for (std::uint32_t op = 1; op <= kLastOp; ++op) {
    known.emplace_back(to_text(static_cast<Op>(op)));
  }
  std::sort(known.begin(), known.end());
  EXPECT_THAT(known, testing::Not(testing::Contains("unknown")));
  EXPECT_EQ(documented, known);
}

TEST(LaunchStepsDocument, ListsThemInTheOrderInWhichTheyRun) {
  const std::string text = document();
  const LaunchPlan plan = fullest_plan();
  EXPECT_EQ(names_below(text, "First"), names_in_order(plan.early));
  EXPECT_EQ(names_below(text, "The base view"), names_in_order(plan.base));
  EXPECT_EQ(names_below(text, "The box"), names_in_order(plan.box));
}

}  // namespace
}  // namespace glovebox::plan
