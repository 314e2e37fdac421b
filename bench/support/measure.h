// Interleaved measurement: every row is measured once per round, so that what disturbs the machine
// disturbs all rows alike, and ratios within one run mean something.
#pragma once

#include "base/result.h"

#include <functional>
#include <string>
#include <vector>

namespace glovebox::bench {

struct Row {
  std::string name;
  std::function<Result<void>()> once;
  std::vector<double> us{};  // filled by run_rounds
};

// Runs all rows `rounds` times, interleaved, after a warm-up of a tenth of that.
Result<void> run_rounds(std::vector<Row>& rows, int rounds);

double percentile(std::vector<double> values, double fraction);

// p50, p99 and ratios of p50 to the named rows, as an aligned table. Where GLOVEBOX_BENCH_RESULTS
// names a file, the rows are appended to it as well, one JSON object a line: tools/bench_results.py
// makes tables and plots of them.
void print_table(const std::vector<Row>& rows, const std::vector<std::string>& relative_to);

// Starts a program with vfork and exec, waits for it, and is an error when it does not exit with 0.
Result<void> spawn_and_wait(const std::vector<std::string>& argv);

// The main of a benchmark that takes a number of rounds: says how it is called, runs it, and says
// what went wrong.
int bench_main(int argc, char** argv, const char* name, int usual_rounds,
               const std::function<Result<void>(int)>& run);

// A program of the same build directory.
std::string beside_me(const char* name);

// "Linux 6.18 x86_64, 2 cores, AMD EPYC".
std::string host_line();

}  // namespace glovebox::bench
