#include "app/attack_command.h"

#include "app/attack/attack_run.h"
#include "app/commands.h"
#include "base/file.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr Ids kNobody{65534, 65534};
constexpr std::array<Grants, 2> kGrants{Grants::Little, Grants::Much};

struct Row {
  const Attack* attack;
  std::string tier;
  Grants grants;
  Outcome outcome;
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
    for (const fs::path& from : {self, probe}) {
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
        probe_(std::move(other.probe_)) {}
  Programs& operator=(Programs&&) = delete;
  ~Programs() {
    std::error_code ignored;  // at the end nobody is left to tell
    if (!directory_.empty()) fs::remove_all(directory_, ignored);
  }

  const std::string& glovebox() const { return glovebox_; }
  const std::string& probe() const { return probe_; }

 private:
  Programs() = default;
  std::string directory_, glovebox_, probe_;
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

void show(const Row& row, const AttackOptions& options) {
  if (options.json || (row.outcome.verdict == Verdict::Held && !options.verbose)) return;
  (void)print(fmt::format("{:<10}  {:>2} {} ({}, {}): {}\n", to_text(row.outcome.verdict),
                          row.attack->number, row.attack->name, row.tier, to_text(row.grants),
                          row.outcome.detail));  // the exit code tells too
}

Result<std::vector<Row>> try_all(const AttackOptions& options, const Programs& programs) {
  std::vector<Row> rows;
  const Sandbox sandbox = options.peer.empty()      ? Sandbox::Glovebox
                          : options.peer == "bwrap" ? Sandbox::Bubblewrap
                                                    : Sandbox::None;
  TRY(const std::vector<Tier> list, tiers(options));
  for (const Tier& tier : list) {
    std::unique_ptr<Canaries> canaries;
    for (const Grants grants : kGrants) {
      const Setting setting{sandbox, grants, tier.ids,
                            options.peer == "bwrap" ? "/usr/bin/bwrap" : programs.glovebox(),
                            programs.probe()};
      for (const Attack& attack : all_attacks()) {
        if (!applies(attack, setting)) continue;
        if (canaries == nullptr) {
          TRY(Canaries fresh, Canaries::make(tier.ids));
          canaries = std::make_unique<Canaries>(std::move(fresh));
        }
        TRY(Outcome outcome, try_attack(attack, setting, *canaries));
        if (outcome.verdict == Verdict::Escaped) canaries.reset();  // they are not as they were
        rows.push_back({&attack, tier.name, grants, std::move(outcome)});
        show(rows.back(), options);
      }
    }
  }
  return rows;
}

std::size_t count(const std::vector<Row>& rows, Verdict verdict) {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [&](const Row& row) { return row.outcome.verdict == verdict; }));
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
  return text + fmt::format("{} held, {} open, {} escaped, {} not proven, in {} tries\n",
                            count(rows, Verdict::Held), count(rows, Verdict::Open),
                            count(rows, Verdict::Escaped), count(rows, Verdict::NotProven),
                            rows.size());
}

std::string as_json(const std::vector<Row>& rows) {
  json::array list;
  for (const Row& row : rows) {
    list.push_back(json::object{{"class", row.attack->number},
                                {"tries", std::string(row.attack->name)},
                                {"probe", std::string(row.attack->words)},
                                {"as", row.tier},
                                {"grants", row.grants == Grants::Little ? "little" : "much"},
                                {"verdict", std::string(to_text(row.outcome.verdict))},
                                {"detail", row.outcome.detail}});
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
    text += fmt::format("{:>2}  {:<58} {}\n", attack.number, attack.name, attack.words);
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
  if (options.peer == "bwrap" && ::access("/usr/bin/bwrap", X_OK) != 0) {
    return fail(Code::NotFound, "/usr/bin/bwrap is missing (apt-get install bubblewrap)");
  }
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
