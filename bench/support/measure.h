// Interleaved measurement: every row is measured once per round, so that what disturbs the machine
// disturbs all rows alike, and ratios within one run mean something.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <functional>
#include <optional>
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

// What is printed by the functions below is also appended, one JSON object a line, to the file that
// GLOVEBOX_BENCH_RESULTS names: tools/bench_results.py makes tables and plots of it.

// p50, p99 and ratios of p50 to the named rows, as an aligned table.
void print_table(const std::vector<Row>& rows, const std::vector<std::string>& relative_to);

// What a figure is held against.
struct Asked {
  enum class Way : std::uint8_t { AtMost, AtLeast };
  Way way = Way::AtMost;
  double bound = 0;
};
constexpr Asked at_most(double bound) { return {Asked::Way::AtMost, bound}; }
constexpr Asked at_least(double bound) { return {Asked::Way::AtLeast, bound}; }

// One number that is no row of a table: a ratio, a rate, memory. Says whether it is as asked.
void print_figure(const std::string& name, double value, const std::string& unit,
                  std::optional<Asked> asked = std::nullopt);

// How many times the p50 of `row` is that of `base`, as a figure with the unit "x".
void print_ratio(const std::vector<Row>& rows, const std::string& row, const std::string& base,
                 std::optional<Asked> asked = std::nullopt);

// A sentence that belongs to what was measured, such as what a peer does not do.
void print_note(const std::string& text);

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
