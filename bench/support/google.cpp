#include "support/google.h"

#include <benchmark/benchmark.h>

#include <cstdlib>

namespace glovebox::bench {
namespace {

class Collector final : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      us[run.benchmark_name()] =
          run.cpu_accumulated_time / static_cast<double>(run.iterations) * 1e6;
    }
    ConsoleReporter::ReportRuns(runs);
  }
  std::map<std::string, double> us;
};

}  // namespace

std::map<std::string, double> run_google_benchmarks(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) std::exit(125);
  Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  return collector.us;
}

}  // namespace glovebox::bench
