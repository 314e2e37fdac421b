#include "support/measure.h"

#include "base/file.h"
#include "base/quantity.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::bench {
namespace {

Result<double> timed(const Row& row) {
  const auto before = std::chrono::steady_clock::now();
  const auto done = row.once();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - before;
  if (!done) return fail(Code::Os, "{}: {}", row.name, done.error().message);
  return took.count();
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

// `members` is the rest of a JSON object.
void record(const std::string& members) {
  const char* place = std::getenv("GLOVEBOX_BENCH_RESULTS");
  if (place == nullptr) return;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename();
  std::ofstream results(place, std::ios::app);
  results << fmt::format(R"({{"bench":"{}","uid":{},{}}})"
                         "\n",
                         program, ::getuid(), members);
  results.flush();
  GLOVEBOX_CHECK(results.good());
}

const Row* find_row(const std::vector<Row>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  return found == rows.end() ? nullptr : &*found;
}

double p50_of(const Row* row) { return row == nullptr ? NAN : percentile(row->us, 0.5); }

}  // namespace

Result<void> run_rounds(std::vector<Row>& rows, int rounds) {
  for (int round = -rounds / 10 - 1; round < rounds; ++round) {
    for (Row& row : rows) {
      TRY(const double us, timed(row));
      if (round >= 0) row.us.push_back(us);
    }
  }
  return {};
}

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return NAN;
  const auto at = static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

void print_table(const std::vector<Row>& rows, const std::vector<std::string>& relative_to) {
  std::string head = fmt::format("{:<58} {:>9} {:>9} {:>8}", "what", "p50 us", "p99 us", "p99/p50");
  for (const std::string& name : relative_to)
    head += fmt::format(" {:>22}", "x " + name.substr(0, 20));
  std::puts(head.c_str());
  for (const Row& row : rows) {
    const double p50 = percentile(row.us, 0.5);
    const double p99 = percentile(row.us, 0.99);
    std::string line =
        fmt::format("{:<58} {:>9.0f} {:>9.0f} {:>8.2f}", row.name, p50, p99, p99 / p50);
    for (const std::string& name : relative_to) {
      const double base = p50_of(find_row(rows, name));
      line +=
          std::isnan(base) ? fmt::format(" {:>22}", "-") : fmt::format(" {:>22.2f}", p50 / base);
    }
    std::puts(line.c_str());
    record(fmt::format(R"("table":{},"what":{},"rounds":{},"p50_us":{:.1f},"p99_us":{:.1f})",
                       json_text(rows.front().name), json_text(row.name), row.us.size(), p50, p99));
  }
}

void print_figure(const std::string& name, double value, const std::string& unit,
                  std::optional<Asked> asked) {
  std::string line = fmt::format("{:<68} {:>12.2f} {}", name, value, unit);
  std::string members = fmt::format(R"("figure":{},"value":{:.4f},"unit":{})", json_text(name),
                                    value, json_text(unit));
  if (asked) {
    const bool most = asked->way == Asked::Way::AtMost;
    const bool reached = most ? value <= asked->bound : value >= asked->bound;
    line += fmt::format("  (asked: {} {:g}{})", most ? "at most" : "at least", asked->bound,
                        reached ? "" : "; MISSED");
    members += fmt::format(R"(,"asked":{:g},"way":"{}","reached":{})", asked->bound,
                           most ? "at most" : "at least", reached);
  }
  std::puts(line.c_str());
  record(members);
}

void print_ratio(const std::vector<Row>& rows, const std::string& row, const std::string& base,
                 std::optional<Asked> asked) {
  print_figure(row + " / " + base, p50_of(find_row(rows, row)) / p50_of(find_row(rows, base)), "x",
               asked);
}

void print_note(const std::string& text) {
  std::puts(text.c_str());
  record(fmt::format(R"("note":{})", json_text(text)));
}

int bench_main(int argc, char** argv, const char* name, int usual_rounds,
               const std::function<Result<void>(int)>& run) {
  const auto rounds = argc > 1 ? parse_count(argv[1])
                               : Result<std::uint64_t>(static_cast<std::uint64_t>(usual_rounds));
  if (argc > 2 || !rounds || *rounds == 0 || *rounds > 1'000'000) {
    (void)std::fprintf(stderr, "usage: %s [ROUNDS]   (usually %d)\n", name, usual_rounds);
    return 125;
  }
  const auto done = run(static_cast<int>(*rounds));
  if (done) return 0;
  (void)std::fprintf(stderr, "%s: %s\n", name, done.error().message.c_str());
  return 1;
}

std::string beside_me(const char* name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

Result<void> spawn_and_wait(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t pid = ::vfork();  // NOLINT: the floor that everything is measured against
  if (pid == 0) {
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  if (pid < 0) return fail_os(errno, "vfork");
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return fail_os(errno, "wait");
  if (status != 0) return fail(Code::Os, "{} ended with status {:#x}", argv.front(), status);
  return {};
}

std::string host_line() {
  utsname names{};
  ::uname(&names);
  std::string model = "unknown processor";
  if (const auto text = read_file("/proc/cpuinfo", 1 << 22)) {
    const std::size_t at = text->find("model name");
    if (at != std::string::npos) {
      const std::size_t colon = text->find(':', at);
      model = text->substr(colon + 2, text->find('\n', colon) - colon - 2);
    }
  }
  return fmt::format("{} {} {}, {} cores, {}", names.sysname, names.release, names.machine,
                     ::get_nprocs(), model);
}

}  // namespace glovebox::bench
