#include "policy/load.h"

#include "policy/print.h"
#include "policy/templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string problem(std::string_view reference) {
  const auto policy = load_policy(reference);
  return policy ? "accepted" : to_text(policy.error());
}

TEST(Templates, AreTheOnesThatAreDocumented) {
  EXPECT_THAT(template_names(), ElementsAre("agent", "build", "deny-all", "ml-inference", "node",
                                            "python", "readonly", "web-scraper"));
}

TEST(Templates, AllCompileAndCarryDescriptionAndExamples) {
  for (const Template& each : templates()) {
    const auto file = compile(each.text, each.name);
    ASSERT_TRUE(file) << to_text(file.error());
    ASSERT_EQ(file->sandboxes.size(), 1U) << each.name;
    EXPECT_FALSE(file->sandboxes[0].policy.description.empty()) << each.name;
    EXPECT_NE(each.text.find("\nallows:"), std::string_view::npos) << each.name;
    EXPECT_NE(each.text.find("\nrefuses:"), std::string_view::npos) << each.name;
  }
}

TEST(Templates, WaiveNothingAndWriteNothingOutsideTheWorkspace) {
  for (const Template& each : templates()) {
    const auto policy = load_policy(each.name);
    ASSERT_TRUE(policy) << to_text(policy.error());
    EXPECT_TRUE(policy->policy.waived.empty()) << each.name;
    EXPECT_FALSE(policy->policy.has_patterns()) << each.name;
    EXPECT_THAT(to_text(policy->policy), testing::Not(HasSubstr("allow write="))) << each.name;
  }
}

TEST(Templates, DenyAllGrantsNothing) { EXPECT_EQ(to_text(load_policy("deny-all")->policy), ""); }

TEST(Reference, TellsTemplatesFromFiles) {
  using Kind = Reference::Kind;
  EXPECT_EQ(parse_reference("python"), (Reference{Kind::Template, "python", ""}));
  EXPECT_EQ(parse_reference("python#x"), (Reference{Kind::Template, "python", "x"}));
  EXPECT_EQ(parse_reference("./python"), (Reference{Kind::File, "./python", ""}));
  EXPECT_EQ(parse_reference("job.yaml#fetch"), (Reference{Kind::File, "job.yaml", "fetch"}));
  EXPECT_EQ(parse_reference("/a#b/job.yml#c"), (Reference{Kind::File, "/a#b/job.yml", "c"}));
  EXPECT_EQ(parse_reference("job.json"), (Reference{Kind::File, "job.json", ""}));
}

TEST(Load, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_EQ(problem("pyton"), "pyton: there is no policy of that name; did you mean 'python'?\n");
  EXPECT_EQ(
      problem("zzz"),
      "zzz: there is no policy of that name; one of: agent, build, deny-all, ml-inference, node, "
      "python, readonly, web-scraper; a file is named by a path, such as ./zzz.yaml\n");
  EXPECT_EQ(problem("python#x"),
            "policies/python.yaml: has no sandbox 'x'; it is a single sandbox without a name\n");
}

class LoadFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "glovebox-load-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string write(const std::string& name, std::string_view text) {
    std::ofstream(root_ / name) << text;
    return (root_ / name).string();
  }

  std::filesystem::path root_;
};

TEST_F(LoadFile, YamlAndJsonFiles) {
  const std::string yaml = write("a.yaml", "sandboxes: {x: {pids: 5}, y: {pids: 6}}");
  EXPECT_EQ(to_text(load_policy(yaml + "#y")->policy), "pids=6\n");
  EXPECT_THAT(problem(yaml), HasSubstr("holds several sandboxes"));
  const std::string json = write("a.json", R"({"version": 1, "pids": 7})");
  EXPECT_EQ(to_text(load_policy(json)->policy), "pids=7\n");
}

TEST_F(LoadFile, ProblemsOfTheFileAreDiagnostics) {
  EXPECT_THAT(problem((root_ / "none.yaml").string()),
              HasSubstr("No such file or directory (ENOENT)"));
  EXPECT_THAT(problem(root_.string()), HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((root_ / "pipe.yaml").c_str(), 0600), 0);
  EXPECT_THAT(problem((root_ / "pipe.yaml").string()), HasSubstr("not a regular file"));
  const std::string large = write("large.yaml", std::string(kMaxDocumentBytes + 1, '#'));
  EXPECT_THAT(problem(large), HasSubstr("more than 1048576 bytes"));
}

}  // namespace
}  // namespace glovebox::policy
