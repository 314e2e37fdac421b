#include "cli/last_run.h"

#include "base/file.h"
#include "base/sha256.h"
#include "base/strict_json.h"
#include "cli/layers.h"
#include "host/path_facts.h"
#include "workspace/tree/printable.h"
#include "workspace/tree/private_files.h"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;
using Outcome = LastRun::Outcome;

constexpr const char* kDirectory = "/last-runs";
constexpr std::size_t kMostRemembered = 500;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::array<std::string_view, 3> kOutcomes{"has-layer", "changed-nothing", "refused"};

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

std::string encode(const LastRun& run) {
  return json::serialize(
      json::object{{"version", 1},
                   {"workspace", workspace::encode_bytes(run.workspace)},
                   {"outcome", kOutcomes.at(static_cast<std::size_t>(run.outcome))},
                   {"layer", run.layer},
                   {"program", workspace::encode_bytes(run.program)},
                   {"at", static_cast<std::uint64_t>(run.at)},
                   {"committed", run.committed},
                   {"committed_at", static_cast<std::uint64_t>(run.committed_at)}});
}

Result<LastRun> decode(std::string_view text) {
  TRY(const json::value value, parse_strict_json(text));
  TRY(JsonFields fields, JsonFields::of(value, "a record of a run"));
  LastRun run;
  TRY(const std::uint64_t version, fields.integer("version"));
  if (version != 1) return fail(Code::Unsupported, "a record of a run has version {}", version);
  TRY(const std::string_view workspace, fields.text("workspace"));
  TRY(run.workspace, workspace::decode_bytes(workspace));
  TRY(const std::string_view outcome, fields.text("outcome"));
  const auto known = std::ranges::find(kOutcomes, outcome);
  if (known == kOutcomes.end()) return fail(Code::Invalid, "a record of a run is broken");
  run.outcome = static_cast<Outcome>(known - kOutcomes.begin());
  TRY(run.layer, fields.text("layer"));
  TRY(const std::string_view program, fields.text("program"));
  TRY(run.program, workspace::decode_bytes(program));
  TRY(const std::uint64_t at, fields.integer("at"));
  TRY(run.committed, fields.text("committed"));
  TRY(const std::uint64_t committed_at, fields.integer("committed_at"));
  run.at = static_cast<std::int64_t>(at);
  run.committed_at = static_cast<std::int64_t>(committed_at);
  TRY_VOID(fields.finish());
  return run;
}

// Nothing when no run was remembered there. A record that cannot be read is as good as none.
std::optional<LastRun> read(const std::string& workspace) {
  const auto state = state_directory();
  if (!state) return std::nullopt;
  const auto text = read_file(*state + kDirectory + "/" + sha256_hex(workspace));
  if (!text) return std::nullopt;
  auto run = decode(*text);
  if (!run || run->workspace != workspace) return std::nullopt;
  return *std::move(run);
}

Result<void> write(const LastRun& run) {
  TRY(const std::string state, state_directory());
  TRY(const UniqueFd dir, workspace::open_private_directory(state + kDirectory));
  return workspace::write_record(dir, sha256_hex(run.workspace), encode(run),
                                 workspace::Durability::Lazy);
}

// The innermost first.
std::vector<LastRun> runs_at_or_above(const std::string& directory) {
  std::vector<LastRun> found;
  std::filesystem::path at = directory;
  while (true) {
    if (auto run = read(at.string())) found.push_back(*std::move(run));
    if (!at.has_relative_path()) return found;
    at = at.parent_path();
  }
}

template <class Time>
Result<LastRun> newest(const std::string& directory, Time time, std::string_view what) {
  const std::vector<LastRun> runs = runs_at_or_above(directory);
  const auto found = std::ranges::max_element(runs, {}, time);
  if (found != runs.end() && (*found).*time != 0) return *found;
  return fail(Code::NotFound,
              "{} in {} or a directory above it is known ('glovebox layers' lists "
              "what there is)",
              what, workspace::printable(directory));
}

std::string program_of(const std::vector<std::string>& command) {
  if (command.empty()) return "";
  return command.front() + (command.size() > 1 ? " ..." : "");
}

}  // namespace

Result<std::string> current_directory() {
  std::error_code problem;
  const std::filesystem::path here = std::filesystem::current_path(problem);
  // The kernel calls one that was removed "(unreachable)..." or nothing at all.
  if (!problem && here.is_absolute()) return here.string();
  return fail(Code::NotFound,
              "the current directory is gone, so there is no 'last' here: name one by its id "
              "('glovebox layers', 'glovebox session list')");
}

Result<void> remember_run(const workspace::LayerFacts& layer,
                          const std::vector<std::string>& command) {
  LastRun run = read(layer.origin).value_or(LastRun{});
  run.workspace = layer.origin;
  run.outcome = Outcome::HasLayer;
  run.layer = layer.id;
  run.program = program_of(command);
  run.at = std::max(layer.created, run.at + 1);
  return write(run);
}

Result<void> forget_layer(const workspace::LayerFacts& layer) {
  auto run = read(layer.origin);
  if (!run || run->layer != layer.id) return {};  // another run began since
  run->outcome = Outcome::ChangedNothing;
  run->layer.clear();
  return write(*run);
}

Result<void> remember_without_layer(const std::string& workspace, Outcome outcome,
                                    const std::vector<std::string>& command) {
  const auto state = state_directory();
  std::error_code problem;
  if (!state || !std::filesystem::exists(*state, problem)) return {};
  const std::vector<LastRun> before = runs_at_or_above(workspace);
  const bool is_known = !before.empty() && before.front().workspace == workspace;
  LastRun run = is_known ? before.front() : LastRun{};
  run.workspace = workspace;
  run.outcome = outcome;
  run.layer.clear();
  run.program = program_of(command);
  run.at = now();
  for (const LastRun& other : before) run.at = std::max(run.at, other.at + 1);
  TRY_VOID(write(run));
  if (!is_known) collect_last_runs();
  return {};
}

Result<void> remember_commit(const workspace::LayerFacts& layer) {
  LastRun run = read(layer.origin).value_or(LastRun{});
  if (run.workspace.empty()) {  // of a run that was not remembered
    run.workspace = layer.origin;
    run.outcome = Outcome::HasLayer;
    run.layer = layer.id;
    run.at = layer.created;
  }
  run.committed = layer.id;
  run.committed_at = now();
  for (const LastRun& other : runs_at_or_above(layer.origin)) {
    run.committed_at = std::max(run.committed_at, other.committed_at + 1);
  }
  return write(run);
}

Result<LastRun> find_last_run(const std::string& directory) {
  return newest(directory, &LastRun::at, "no run");
}

Result<LastRun> find_last_commit(const std::string& directory) {
  return newest(directory, &LastRun::committed_at, "no commit");
}

std::string to_text(const LastRun& run) {
  const time_t seconds = run.at / kSecond;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 64> time{};
  (void)std::strftime(time.data(), time.size(), "%Y-%m-%d at %H:%M:%S", &parts);
  return fmt::format("'{}' in {} on {}", workspace::printable(run.program),
                     workspace::printable(run.workspace), time.data());
}

void collect_last_runs() {
  const auto state = state_directory();
  if (!state) return;
  std::error_code problem;  // what is not removed now is removed later
  std::vector<std::pair<std::int64_t, std::filesystem::path>> records;
  for (const auto& entry : std::filesystem::directory_iterator(*state + kDirectory, problem)) {
    const auto text = read_file(entry.path());
    const auto run = text ? decode(*text) : Result<LastRun>(unexpected(text.error()));
    records.emplace_back(run ? std::max(run->at, run->committed_at) : 0, entry.path());
  }
  std::ranges::sort(records);
  for (std::size_t i = 0; i + kMostRemembered < records.size(); ++i) {
    std::filesystem::remove(records[i].second, problem);
  }
}

}  // namespace glovebox::app
