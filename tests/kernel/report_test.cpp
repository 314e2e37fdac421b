// The report says what was enforced, how the run ended and what it used, and it is true.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

using boost::json::value;

class Report : public BoxTest {
 protected:
  static Words enforced_names(const Outcome& outcome) {
    Words names;
    for (const value& entry : outcome.report.at("enforced").as_array()) {
      names.emplace_back(entry.at("name").as_string());
      EXPECT_FALSE(entry.at("by").as_string().empty()) << names.back();
    }
    return names;
  }
};

TEST_P(Report, HasTheAgreedShape) {
  const Outcome outcome = probe({}, {"exit_code", "5"});
  ASSERT_TRUE(outcome.report.is_object());
  const value& report = outcome.report;
  EXPECT_EQ(report.at("version"), 1);
  EXPECT_EQ(report.at("command").as_array().size(), 3U);
  EXPECT_EQ(report.at("command").at(1), "exit_code");
  EXPECT_EQ(report.at("exit").at("code"), 5);
  EXPECT_TRUE(report.at("exit").at("signal").is_null());
  EXPECT_EQ(report.at("exit").at("reason"), "exited");
  EXPECT_TRUE(report.at("exit").at("limit").is_null());
  EXPECT_TRUE(report.at("waived").as_array().empty());
  EXPECT_TRUE(report.at("identity").is_object());
  EXPECT_TRUE(report.at("limits").is_object());
  EXPECT_FALSE(report.at("launch_steps").as_array().empty());
}

TEST_P(Report, StepsHaveTimes) {
  const Outcome outcome = probe({}, {"exit_code", "0"});
  ASSERT_TRUE(outcome.report.is_object());
  double total = 0;
  for (const value& step : outcome.report.at("launch_steps").as_array()) {
    EXPECT_FALSE(step.at("step").as_string().empty());
    EXPECT_GE(step.at("us").to_number<double>(), 0);
    total += step.at("us").to_number<double>();
  }
  EXPECT_GT(total, 0);
  EXPECT_LT(total, static_cast<double>(outcome.took.count() + 1) * 1000);
}

TEST_P(Report, NamesWhatWasEnforced) {
  const Words names = enforced_names(probe({"--wall", "20s"}, {"exit_code", "0"}));
  for (const char* name : {"identity", "capabilities", "no-new-privileges", "landlock",
                           "limit.pids", "limit.core", "limit.open-files", "limit.wall"}) {
    EXPECT_THAT(names, testing::Contains(name));
  }
  const auto memory = testing::Contains("limit.memory");
  if (as_root() && !why_missing(Feature::MemoryCgroup)) {
    EXPECT_THAT(names, memory);
  } else {
    EXPECT_THAT(names, testing::Not(memory)) << "it cannot be enforced, so it must not be claimed";
  }
}

TEST_P(Report, NamesWhatWasWaived) {
  const Outcome outcome = probe({"--cpus", "1", "--waive", "limit.cpus"}, {"exit_code", "0"});
  ASSERT_THAT(outcome, ended_with(0));
  EXPECT_THAT(boost::json::serialize(outcome.report.at("waived")),
              testing::HasSubstr("limit.cpus"));
}

TEST_P(Report, UsageIsMeasured) {
  const Outcome outcome = probe({}, {"spin", "300"});
  ASSERT_TRUE(outcome.report.is_object());
  const value& usage = outcome.report.at("usage");
  EXPECT_GE(usage.at("wall_us").to_number<double>(), 300'000);
  EXPECT_GE(usage.at("cpu_us").to_number<double>(), 10'000);  // the machine may be busy
  EXPECT_LE(usage.at("cpu_us").to_number<double>(), 2'000'000);
  EXPECT_EQ(usage.at("output_bytes").to_number<std::size_t>(),
            outcome.out.size() + outcome.err.size());
}

TEST_P(Report, PeakMemoryIsSeenOrNull) {
  const Outcome outcome = probe({}, {"memory_hog", "heap", "50"});
  ASSERT_TRUE(outcome.report.is_object());
  const value& peak = outcome.report.at("usage").at("peak_memory_bytes");
  if (as_root()) {
    EXPECT_GE(peak.to_number<double>(), 50.0 * (1 << 20));
    EXPECT_LE(peak.to_number<double>(), 200.0 * (1 << 20));
  } else {
    EXPECT_TRUE(peak.is_null() || peak.to_number<double>() >= 50.0 * (1 << 20));
  }
}

TEST_P(Report, RefusalHasAReportToo) {
  const Outcome outcome = run({"--cwd", "/no/such/place"}, {"true"});
  EXPECT_EQ(outcome.code, 125);
  ASSERT_TRUE(outcome.report.is_object());
  EXPECT_THAT(outcome.reason(), testing::AnyOf("refused", "failed"));
}

TEST_P(Report, DashMeansStandardError) {
  const Outcome outcome = glovebox({"run", "--report", "-", "--", "/bin/sh", "-c", "exit 9"});
  EXPECT_EQ(outcome.code, 9);
  EXPECT_EQ(outcome.out, "");
  const value report = boost::json::parse(outcome.err);
  EXPECT_EQ(report.at("exit").at("code"), 9);
}

TEST_P(Report, OddArgumentsStayJson) {
  const Outcome outcome = run({}, {"/bin/true", "quote\" back\\slash \x01 \xff\xfe end"});
  EXPECT_EQ(outcome.code, 0);
  ASSERT_TRUE(outcome.report.is_object());
  EXPECT_EQ(outcome.report.at("command").as_array().size(), 2U);
}

// An earlier box left a link where the next one's report goes, or a pipe without a reader.
TEST_P(Report, IsNotWrittenThroughALink) {
  const std::string canary = make_file("canary", "untouched\n");
  const std::string work = make_directory("work");
  ASSERT_EQ(symlink(canary.c_str(), (work + "/link").c_str()), 0);
  ASSERT_EQ(mkfifo((work + "/pipe").c_str(), 0666), 0);
  for (const char* name : {"/link", "/pipe"}) {
    const Outcome outcome = glovebox({"run", "--report", work + name, "--", "/bin/true"});
    EXPECT_THAT(outcome, refused_to_start("--report")) << name;
  }
  EXPECT_EQ(read_text(canary), "untouched\n");
  EXPECT_THAT(glovebox({"run", "--report", work + "/plain", "--", "/bin/true"}), ended_with(0));
  EXPECT_THAT(glovebox({"run", "--report", "/dev/null", "--", "/bin/true"}), ended_with(0));
}

TEST_P(Report, ThroughASymlinkDoesNotOverwriteWhatTheBoxPlanted) {
  // The report lies in the workspace, and the command replaces it with a link to a canary.
  const std::string canary = make_file("canary", "as it was\n");
  const std::string work = make_directory("work");
  const std::string report = work + "/report.json";
  const Outcome outcome = glovebox(
      {"run", "--report", report, "-w", work + ":rw", "--", "/bin/ln", "-sf", canary, report});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(read_text(canary), "as it was\n");
}

BOX_TEST_TIERS(Report);

}  // namespace
}  // namespace glovebox::test
