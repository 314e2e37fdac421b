#include "attack/attack_command.h"

#include "attack/attack_run.h"
#include "base/file.h"
#include "cli/commands.h"

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include <sys/prctl.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr Ids kNobody{65534, 65534};
constexpr std::array<Grants, 2> kGrants{Grants::Little, Grants::Much};
constexpr std::array<Backend, 6> kBackends{Backend::Process, Backend::Session, Backend::Parked,
                                           Backend::Python,  Backend::Cell,    Backend::Mcp};
constexpr const char* kPython = "/usr/bin/python3";

struct Row {
  const Attack* attack;
  Backend backend;
  std::string tier;
  Grants grants;
  Outcome outcome;
  std::chrono::milliseconds took;
};

Result<void> print(const std::string& text) { return write_all(BorrowedFd(1), text); }

// Programs at a path that every user can reach: what an ordinary user tries must not fail because
// of where this is installed.
class Programs {
 public:
  static Result<Programs> make() {
    Programs programs;
    std::error_code problem;
    const fs::path self = fs::read_symlink("/proc/self/exe", problem);
    const fs::path probe = self.parent_path() / "glovebox-probe";
    if (problem || ::access(probe.c_str(), X_OK) != 0) {
      return fail(Code::NotFound, "{} is missing: the attacks are in it", probe.string());
    }
    char name[] = "/tmp/glovebox-attack-bin-XXXXXX";
    if (::mkdtemp(name) == nullptr) return fail_os(errno, "make a directory");
    programs.directory_ = name;
    std::vector<fs::path> all{self, probe};
    const fs::path launcher = self.parent_path() / "glovebox-launcher";
    if (::access(launcher.c_str(), X_OK) == 0) all.push_back(launcher);
    programs.has_launcher_ = all.size() == 3;
    for (const fs::path& from : all) {
      const fs::path to = fs::path(name) / from.filename();
      fs::copy_file(from, to, problem);
      if (!problem) fs::permissions(to, fs::perms(0755), problem);
      if (problem) return fail(Code::Os, "copy {}: {}", from.string(), problem.message());
    }
    fs::permissions(name, fs::perms(0755), problem);
    programs.glovebox_ = (fs::path(name) / self.filename()).string();
    programs.probe_ = (fs::path(name) / probe.filename()).string();
    return programs;
  }
  Programs(Programs&& other) noexcept
      : directory_(std::exchange(other.directory_, "")),
        glovebox_(std::move(other.glovebox_)),
        probe_(std::move(other.probe_)),
        has_launcher_(other.has_launcher_) {}
  Programs& operator=(Programs&&) = delete;
  ~Programs() {
    std::error_code ignored;  // at the end there is no caller to tell
    if (!directory_.empty()) fs::remove_all(directory_, ignored);
  }

  const std::string& glovebox() const { return glovebox_; }
  const std::string& probe() const { return probe_; }
  bool has_launcher() const { return has_launcher_; }

 private:
  Programs() = default;
  std::string directory_, glovebox_, probe_;
  bool has_launcher_ = false;
};

struct Tier {
  std::string name;
  Ids ids;
};

Result<std::vector<Tier>> tiers(const AttackOptions& options) {
  const bool root = ::geteuid() == 0;
  const Tier user{"user", root ? kNobody : Ids{::geteuid(), ::getegid()}};
  // As root of the host a peer gives its boxes that very root, and the probes do not run.
  const bool as_root = root && options.as != "user" && options.peer.empty();
  if (options.as == "root" && !as_root) {
    return fail(Code::Denied, "--as root: only root can start boxes as root{}",
                options.peer.empty() ? "" : ", and peers are tried as a user");
  }
  std::vector<Tier> list;
  if (as_root) list.push_back({"root", Ids{0, 0}});
  if (options.as != "root") list.push_back(user);
  return list;
}

// Those that were asked for, or all that can be had here.
Result<std::vector<Backend>> backends(const AttackOptions& options, const Programs& programs) {
  if (options.peer == "bwrap") return std::vector{Backend::Bubblewrap};
  if (options.peer == "none") return std::vector{Backend::None};
  const bool has_python = ::access(kPython, X_OK) == 0;
  std::vector<Backend> list;
  for (const Backend each : kBackends) {
    const bool is_python = each == Backend::Python || each == Backend::Cell;
    const bool can =
        each == Backend::Process || (programs.has_launcher() && (!is_python || has_python));
    const bool asked = std::ranges::find(options.backends, to_text(each)) != options.backends.end();
    if (asked && !can) {
      return fail(Code::NotFound, "--backend {}: needs {} beside glovebox{}", to_text(each),
                  "glovebox-launcher", is_python ? fmt::format(", and {}", kPython) : "");
    }
    if (asked || (options.backends.empty() && can)) list.push_back(each);
  }
  return list;
}

void show(const Row& row, const AttackOptions& options) {
  if (options.json || (row.outcome.verdict == Verdict::Held && !options.verbose)) return;
  (void)print(fmt::format("{:<10}  {:>2} {} ({}, {}, {}): {}\n", to_text(row.outcome.verdict),
                          row.attack->number, row.attack->name, to_text(row.backend), row.tier,
                          to_text(row.grants), row.outcome.detail));  // the exit code tells too
}

// The canaries of a tier and the boxes that are tried among them.
class Range {
 public:
  Range(const Programs& programs, Tier tier, Setting setting)
      : programs_(programs), tier_(std::move(tier)), setting_(std::move(setting)) {}

  Outcome try_one(const Attack& attack) {
    Outcome outcome = try_once(attack);
    for (int i = 0; i < kMoreChances && is_for_now(outcome); ++i) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      outcome = try_once(attack);
    }
    return outcome;
  }

 private:
  static constexpr int kMoreChances = 30;

  // Whatever goes wrong around a box proves nothing about it.
  Outcome try_once(const Attack& attack) {
    Result<Outcome> outcome = begin();
    if (outcome) outcome = try_attack(attack, *boxes_, *canaries_);
    if (!outcome) outcome = Outcome{Verdict::NotProven, outcome.error().message};
    if (outcome->verdict == Verdict::Escaped) end();  // they are not as they were
    return *std::move(outcome);
  }

  Result<Outcome> begin() {
    if (boxes_ != nullptr) return Outcome{};
    end();  // what is left of one that could not begin
    TRY(Canaries fresh, Canaries::make(tier_.ids));
    canaries_ = std::make_unique<Canaries>(std::move(fresh));
    TRY_VOID(canaries_->watch(programs_.glovebox()));
    TRY_VOID(canaries_->watch(programs_.probe()));
    TRY(std::unique_ptr<Boxes> boxes, make_boxes(setting_, *canaries_));
    TRY_VOID(check_grants(setting_, *boxes, *canaries_));
    boxes_ = std::move(boxes);
    return Outcome{};
  }
  void end() {
    boxes_.reset();
    canaries_.reset();
  }

  const Programs& programs_;
  Tier tier_;
  Setting setting_;
  std::unique_ptr<Canaries> canaries_;
  std::unique_ptr<Boxes> boxes_;  // goes first
};

Result<std::vector<Row>> try_all(const AttackOptions& options, const Programs& programs) {
  std::vector<Row> rows;
  TRY(const std::vector<Tier> tier_list, tiers(options));
  TRY(const std::vector<Backend> backend_list, backends(options, programs));
  for (const Tier& tier : tier_list) {
    for (const Backend backend : backend_list) {
      for (const Grants grants : kGrants) {
        const Setting setting{backend, grants, tier.ids, programs.glovebox(), programs.probe()};
        Range range(programs, tier, setting);
        for (const Attack& attack : all_attacks()) {
          if (!applies(attack, setting)) continue;
          if (!options.classes.empty() &&
              std::ranges::find(options.classes, attack.number) == options.classes.end()) {
            continue;
          }
          const auto start = std::chrono::steady_clock::now();
          Outcome outcome = range.try_one(attack);
          rows.push_back({&attack, backend, tier.name, grants, std::move(outcome),
                          std::chrono::duration_cast<std::chrono::milliseconds>(
                              std::chrono::steady_clock::now() - start)});
          show(rows.back(), options);
        }
      }
    }
  }
  return rows;
}

std::size_t count(const std::vector<Row>& rows, Verdict verdict) {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [&](const Row& row) { return row.outcome.verdict == verdict; }));
}

std::size_t count(const std::vector<Row>& rows, Verdict verdict, Backend backend) {
  return static_cast<std::size_t>(std::ranges::count_if(rows, [&](const Row& row) {
    return row.outcome.verdict == verdict && row.backend == backend;
  }));
}

// A line for each backend that was tried.
std::string backend_lines(const std::vector<Row>& rows) {
  std::string text;
  for (int i = 0; i <= static_cast<int>(Backend::None); ++i) {
    const auto backend = static_cast<Backend>(i);
    if (std::ranges::find(rows, backend, &Row::backend) == rows.end()) continue;
    text += fmt::format("backend {:<8} {} held, {} open, {} escaped, {} not proven\n",
                        to_text(backend), count(rows, Verdict::Held, backend),
                        count(rows, Verdict::Open, backend), count(rows, Verdict::Escaped, backend),
                        count(rows, Verdict::NotProven, backend));
  }
  return text;
}

// A line for each class: in how many tries it held.
std::string scorecard(const std::vector<Row>& rows) {
  std::string text;
  for (int number = 1; number <= kClasses; ++number) {
    std::size_t tries = 0, held = 0;
    for (const Row& row : rows) {
      if (row.attack->number != number) continue;
      ++tries;
      if (row.outcome.verdict == Verdict::Held) ++held;
    }
    if (tries == 0) continue;
    const auto first = std::ranges::find(all_attacks(), number, &Attack::number);
    text += fmt::format("class {:>2}  {:>3} of {:>3} held   {}{}\n", number, held, tries,
                        first->name, held == tries ? "" : "   <--");
  }
  return text + backend_lines(rows) +
         fmt::format("{} held, {} open, {} escaped, {} not proven, in {} tries\n",
                     count(rows, Verdict::Held), count(rows, Verdict::Open),
                     count(rows, Verdict::Escaped), count(rows, Verdict::NotProven), rows.size());
}

std::string as_json(const std::vector<Row>& rows) {
  json::array list;
  for (const Row& row : rows) {
    list.push_back(json::object{{"class", row.attack->number},
                                {"tries", std::string(row.attack->name)},
                                {"probe", std::string(row.attack->words)},
                                {"backend", std::string(to_text(row.backend))},
                                {"as", row.tier},
                                {"grants", row.grants == Grants::Little ? "little" : "much"},
                                {"verdict", std::string(to_text(row.outcome.verdict))},
                                {"detail", row.outcome.detail},
                                {"milliseconds", row.took.count()}});
  }
  json::array exempt;
  for (const Exempt& each : all_exempt()) {
    exempt.push_back(json::object{{"class", each.number}, {"reason", std::string(each.reason)}});
  }
  return json::serialize(json::object{{"held", count(rows, Verdict::Held)},
                                      {"open", count(rows, Verdict::Open)},
                                      {"escaped", count(rows, Verdict::Escaped)},
                                      {"not_proven", count(rows, Verdict::NotProven)},
                                      {"attacks", std::move(list)},
                                      {"not_tried", std::move(exempt)}}) +
         "\n";
}

std::string list_text() {
  std::string text;
  for (const Attack& attack : all_attacks()) {
    std::string words(attack.words.substr(0, attack.words.find('\n')));
    text += fmt::format("{:>2}  {:<70} {}\n", attack.number, attack.name, words);
  }
  text += "\nnot tried, and why:\n";
  for (const Exempt& each : all_exempt()) {
    text += fmt::format("{:>2}  {}\n", each.number, each.reason);
  }
  return text;
}

Result<int> attack(const AttackOptions& options) {
  if (options.list) {
    TRY_VOID(print(list_text()));
    return 0;
  }
  if (!options.peer.empty() && !options.backends.empty()) {
    return fail(Code::Invalid, "--backend and --peer exclude each other");
  }
  if (options.peer == "bwrap" && ::access("/usr/bin/bwrap", X_OK) != 0) {
    return fail(Code::NotFound, "/usr/bin/bwrap is missing (apt-get install bubblewrap)");
  }
  // What boxes leave to their parents comes here and is reaped (command.cpp).
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return fail_os(errno, "become a reaper");
  TRY(const Programs programs, Programs::make());
  TRY(const std::vector<Row> rows, try_all(options, programs));
  TRY_VOID(print(options.json ? as_json(rows) : scorecard(rows)));
  if (count(rows, Verdict::Escaped) + count(rows, Verdict::Open) > 0) return 1;
  if (count(rows, Verdict::Held) == 0) return fail(Code::Os, "nothing could be tried");
  return 0;
}

}  // namespace

void add_attack_options(CLI::App& app, AttackOptions& options) {
  app.add_option("--peer", options.peer,
                 "Try the same in another sandbox instead: bwrap, or none to see what they do")
      ->check(CLI::IsMember({"bwrap", "none"}));
  app.add_option(
         "--backend", options.backends,
         "Only in boxes of this kind: process, session, parked, python, cell, mcp (repeatable; "
         "default: all that can be had here)")
      ->check(CLI::IsMember({"process", "session", "parked", "python", "cell", "mcp"}))
      ->allow_extra_args(false);
  app.add_option("--class", options.classes, "Only attacks of this class, 1 to 60 (repeatable)")
      ->check(CLI::Range(1, kClasses))
      ->allow_extra_args(false);
  app.add_option("--as", options.as, "Only as root or user (default: what the caller can be)")
      ->check(CLI::IsMember({"root", "user"}));
  app.add_flag("--json", options.json, "Print one JSON object");
  app.add_flag("--list", options.list, "Print what is tried, and what is not and why");
  app.add_flag("-v,--verbose", options.verbose, "Print every try");
}

int attack_command(const AttackOptions& options) {
  const auto code = attack(options);
  return code ? *code : refuse(code.error());
}

}  // namespace glovebox::app
