#include "observe/metrics.h"

#include <gmock/gmock.h>

namespace glovebox::observe {
namespace {

using testing::HasSubstr;

TEST(Metrics, PrintsCountersGaugesAndHistograms) {
  Metrics metrics;
  metrics.describe("execd.isolation.session.count", "Sessions that are alive.");
  metrics.set("execd.isolation.session.count", {}, 3);
  metrics.count("requests", {{"status", "200"}});
  metrics.count("requests", {{"status", "200"}}, 2);
  metrics.time("execd.isolation.run.duration", {{"result", "success"}}, 0.2);
  metrics.time("execd.isolation.run.duration", {{"result", "success"}}, 3e6);
  const std::string text = metrics.to_prometheus();
  EXPECT_THAT(text, HasSubstr("# HELP execd_isolation_session_count Sessions that are alive.\n"
                              "# TYPE execd_isolation_session_count gauge\n"
                              "execd_isolation_session_count 3\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE requests_total counter\nrequests_total{status=\"200\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("execd_isolation_run_duration_bucket{result=\"success\",le=\"0.1\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("execd_isolation_run_duration_bucket{result=\"success\",le=\"0.25\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("execd_isolation_run_duration_bucket{result=\"success\",le=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("execd_isolation_run_duration_count{result=\"success\"} 2\n"));
}

TEST(Metrics, EscapesLabels) {
  Metrics metrics;
  metrics.count("x", {{"a", "q\"u\\o\nte"}});
  EXPECT_THAT(metrics.to_prometheus(), HasSubstr("x_total{a=\"q\\\"u\\\\o\\nte\"} 1\n"));
}

TEST(Machine, SaysSomethingSensible) {
  MachineMeter meter;
  const MachineLoad load = meter.read();
  EXPECT_GE(load.cpu_count, 1);
  EXPECT_GT(load.memory_total_mib, load.memory_used_mib);
  EXPECT_GT(load.memory_used_mib, 0);
}

}  // namespace
}  // namespace glovebox::observe
