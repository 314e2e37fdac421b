// Numbers about the service, as Prometheus reads them.
//
// Written by hand: Debian's prometheus-cpp comes as shared libraries alone, and the command is
// linked statically. Counters, gauges and one kind of histogram are all that is needed.
//
// One thread, that of the loop.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::observe {

// Pairs of name and value, in the order in which they are printed.
using Labels = std::vector<std::pair<std::string, std::string>>;

// Durations in milliseconds, in buckets from 0.1 ms to a minute.
class Histogram {
 public:
  static const std::vector<double>& bounds();

  Histogram();
  void add(double milliseconds);

  const std::vector<std::uint64_t>& buckets() const { return buckets_; }  // not cumulative
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::vector<std::uint64_t> buckets_;  // the last: above all bounds
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

class Metrics {
 public:
  void count(std::string_view name, const Labels& labels = {}, std::uint64_t more = 1);
  void time(std::string_view name, const Labels& labels, double milliseconds);
  void set(std::string_view name, const Labels& labels, double value);

  // "# HELP" texts; a name without one is printed without.
  void describe(std::string_view name, std::string_view help);

  // The text exposition format, version 0.0.4. Dots in names become underscores, and counters end
  // in _total.
  std::string to_prometheus() const;

 private:
  template <class Value>
  using Family = std::map<Labels, Value>;

  std::map<std::string, Family<std::uint64_t>, std::less<>> counters_;
  std::map<std::string, Family<double>, std::less<>> gauges_;
  std::map<std::string, Family<Histogram>, std::less<>> histograms_;
  std::map<std::string, std::string, std::less<>> help_;
};

// What the machine does, for the JSON form of /metrics.
struct MachineLoad {
  double cpu_count = 0;
  double cpu_used_percent = 0;  // since the last call
  double memory_total_mib = 0;
  double memory_used_mib = 0;
};
class MachineMeter {
 public:
  MachineLoad read();

 private:
  std::uint64_t busy_ = 0;
  std::uint64_t total_ = 0;
  MachineLoad last_;
};

}  // namespace glovebox::observe
