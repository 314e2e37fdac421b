// Google Benchmark for what takes microseconds and touches no kernel; its results as figures.
#pragma once

#include <map>
#include <string>

namespace glovebox::bench {

// Runs every BENCHMARK of the program, prints the library's own table, and returns the CPU time
// that one iteration of each took, in microseconds. Ends the program when the arguments are wrong.
std::map<std::string, double> run_google_benchmarks(int argc, char** argv);

}  // namespace glovebox::bench
