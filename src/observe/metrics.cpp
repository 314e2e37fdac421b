#include "observe/metrics.h"

#include "base/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include <unistd.h>

namespace glovebox::observe {
namespace {

std::string metric_name(std::string_view name) {
  std::string changed(name);
  std::ranges::replace(changed, '.', '_');
  return changed;
}

std::string escape(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// {a="1",b="2"}, or nothing.
std::string labels_text(const Labels& labels, std::string_view more = "") {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escape(value));
  }
  if (!more.empty()) text += fmt::format("{}{}", text.empty() ? "" : ",", more);
  return text.empty() ? text : fmt::format("{{{}}}", text);
}

void print_histogram(std::string& out, const std::string& name, const Labels& labels,
                     const Histogram& histogram) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < Histogram::bounds().size(); ++i) {
    sum += histogram.buckets()[i];
    const std::string bound = fmt::format("le=\"{}\"", Histogram::bounds()[i]);
    out += fmt::format("{}_bucket{} {}\n", name, labels_text(labels, bound), sum);
  }
  out +=
      fmt::format("{}_bucket{} {}\n", name, labels_text(labels, "le=\"+Inf\""), histogram.count());
  out += fmt::format("{}_sum{} {}\n", name, labels_text(labels), histogram.sum());
  out += fmt::format("{}_count{} {}\n", name, labels_text(labels), histogram.count());
}

}  // namespace

const std::vector<double>& Histogram::bounds() {
  static const std::vector<double> kBounds = {0.1, 0.25, 0.5, 1,   2.5, 5,    10,  25,
                                              50,  100,  250, 500, 1e3, 2500, 1e4, 6e4};
  return kBounds;
}

Histogram::Histogram() : buckets_(bounds().size() + 1) {}

void Histogram::add(double milliseconds) {
  const auto at = std::ranges::lower_bound(bounds(), milliseconds) - bounds().begin();
  ++buckets_[static_cast<std::size_t>(at)];
  ++count_;
  sum_ += milliseconds;
}

void Metrics::count(std::string_view name, const Labels& labels, std::uint64_t more) {
  auto family = counters_.find(name);
  if (family == counters_.end())
    family = counters_.emplace(std::string(name), Family<std::uint64_t>()).first;
  family->second[labels] += more;
}

void Metrics::time(std::string_view name, const Labels& labels, double milliseconds) {
  auto family = histograms_.find(name);
  if (family == histograms_.end()) {
    family = histograms_.emplace(std::string(name), Family<Histogram>()).first;
  }
  family->second[labels].add(milliseconds);
}

void Metrics::set(std::string_view name, const Labels& labels, double value) {
  auto family = gauges_.find(name);
  if (family == gauges_.end()) {
    family = gauges_.emplace(std::string(name), Family<double>()).first;
  }
  family->second[labels] = value;
}

void Metrics::describe(std::string_view name, std::string_view help) {
  help_[std::string(name)] = help;
}

std::string Metrics::to_prometheus() const {
  std::string out;
  const auto begin = [&](const std::string& name, const std::string& printed, const char* type) {
    if (const auto help = help_.find(name); help != help_.end()) {
      out += fmt::format("# HELP {} {}\n", printed, help->second);
    }
    out += fmt::format("# TYPE {} {}\n", printed, type);
  };
  for (const auto& [name, family] : counters_) {
    const std::string printed = metric_name(name) + "_total";
    begin(name, printed, "counter");
    for (const auto& [labels, value] : family) {
      out += fmt::format("{}{} {}\n", printed, labels_text(labels), value);
    }
  }
  for (const auto& [name, family] : gauges_) {
    begin(name, metric_name(name), "gauge");
    for (const auto& [labels, value] : family) {
      out += fmt::format("{}{} {}\n", metric_name(name), labels_text(labels), value);
    }
  }
  for (const auto& [name, family] : histograms_) {
    begin(name, metric_name(name), "histogram");
    for (const auto& [labels, value] : family) {
      print_histogram(out, metric_name(name), labels, value);
    }
  }
  return out;
}

MachineLoad MachineMeter::read() {
  MachineLoad load = last_;
  load.cpu_count = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (const auto text = read_file("/proc/stat")) {
    std::istringstream words(*text);
    std::string cpu;
    words >> cpu;
    std::uint64_t value = 0;
    std::uint64_t total = 0;
    std::uint64_t idle = 0;
    for (int field = 0; field < 8 && words >> value; ++field) {
      total += value;
      if (field == 3 || field == 4) idle += value;
    }
    const std::uint64_t busy = total - idle;
    if (total > total_) {
      load.cpu_used_percent =
          100.0 * static_cast<double>(busy - busy_) / static_cast<double>(total - total_);
    }
    busy_ = busy;
    total_ = total;
  }
  if (const auto text = read_file("/proc/meminfo")) {
    const auto field = [&](std::string_view name) {
      const std::size_t at = text->find(name);
      return at == std::string::npos ? 0.0
                                     : static_cast<double>(std::strtoull(
                                           text->c_str() + at + name.size(), nullptr, 10));
    };
    load.memory_total_mib = field("MemTotal:") / 1024;
    load.memory_used_mib = load.memory_total_mib - field("MemAvailable:") / 1024;
  }
  last_ = load;
  return load;
}

}  // namespace glovebox::observe
