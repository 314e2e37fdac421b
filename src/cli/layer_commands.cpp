#include "base/file.h"
#include "base/strict_json.h"
#include "cli/commands.h"
#include "cli/last_run.h"
#include "cli/layer_options.h"
#include "cli/layer_search.h"
#include "workspace/commit/commit.h"
#include "workspace/diff/diff.h"
#include "workspace/tree/printable.h"

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;

constexpr int kRefusedChanges = 1;

Result<void> to_stdout(std::string_view text) { return write_all(BorrowedFd(1), text); }

// Files and names in a layer are the box's: on a terminal nothing of them may drive it.
workspace::Reader reader_of_stdout() {
  return ::isatty(1) == 1 ? workspace::Reader::Terminal : workspace::Reader::Program;
}

std::string place_of(const workspace::LayerFacts& layer) {
  return workspace::printable(layer.origin);
}

// For output that has no room for it.
void say_place(const workspace::LayerFacts& layer) {
  // A closed standard error changes no exit code.
  (void)write_all(BorrowedFd(2),
                  fmt::format("glovebox: changes in {} (layer {})\n", place_of(layer), layer.id));
}

// An object of ours, with the layer and its directory.
std::string with_place(json::object object, const workspace::LayerFacts& layer) {
  object["layer"] = layer.id;
  object["workspace"] = place_of(layer);
  return json::serialize(object) + "\n";
}
Result<std::string> with_place(std::string_view text, const workspace::LayerFacts& layer) {
  TRY(json::value object, parse_strict_json(text, kAnyLength));
  return with_place(std::move(object).as_object(), layer);
}

Result<void> print_diff(const DiffOptions& options) {
  TRY(const FoundLayer found, find_layer(options.layer));
  const workspace::Layer& layer = found.layer;
  TRY(const workspace::Uppers uppers, layer.open_uppers());
  TRY(const UniqueFd original, layer.open_original());
  TRY(const std::vector<workspace::Change> changes, workspace::diff(layer, uppers, original));
  if (options.json) {
    TRY(const std::string text, with_place(workspace::diff_to_json(changes), layer.facts()));
    return to_stdout(text);
  }
  if (options.tar) {
    say_place(layer.facts());
    return workspace::write_tar_gz(changes, uppers, {}, to_stdout);
  }
  // What applies patches takes such a line for a remark.
  TRY_VOID(to_stdout(
      fmt::format("# changes in {} (layer {})\n", place_of(layer.facts()), layer.facts().id)));
  if (options.stat) return workspace::write_stat(changes, uppers, original, to_stdout);
  return workspace::write_unified(changes, uppers, original, reader_of_stdout(), to_stdout);
}

Result<workspace::GateRules> gate_rules(const std::string& file) {
  TRY(workspace::GateRules rules, workspace::builtin_gate_rules());
  if (file.empty()) return rules;
  TRY(const std::string text, read_file(file));
  TRY(const workspace::GateRules more, workspace::parse_gate_rules(text, file));
  return workspace::extend_gate_rules(std::move(rules), more);
}

json::array paths_of(const std::vector<workspace::Change>& changes) {
  json::array list;
  for (const workspace::Change& change : changes) {
    list.push_back(json::object{{"kind", workspace::to_text(change.kind)},
                                {"path", workspace::printable(change.path)}});
  }
  return list;
}

json::array printable_paths(const std::vector<std::string>& paths) {
  json::array list;
  for (const std::string& path : paths) list.push_back(json::string(workspace::printable(path)));
  return list;
}

std::string result_json(const workspace::CommitResult& result, const workspace::LayerFacts& layer) {
  json::array held;
  for (const workspace::Held& one : result.held) {
    held.push_back(json::object{{"path", workspace::printable(one.path)},
                                {"rule", one.rule},
                                {"class", one.rule_class},
                                {"why", one.why},
                                {"paths", printable_paths(one.paths)}});
  }
  json::array left_out;
  for (const workspace::LeftOut& one : result.left_out) {
    left_out.push_back(
        json::object{{"rule", one.rule}, {"why", one.why}, {"paths", printable_paths(one.paths)}});
  }
  json::array conflicts;
  for (const workspace::Conflict& one : result.conflicts) {
    conflicts.push_back(json::object{{"path", workspace::printable(one.path)}, {"why", one.why}});
  }
  json::object object{{"version", 1},
                      {"committed", !result.is_refused() && result.number != 0},
                      {"applied", paths_of(result.applied)},
                      {"held", std::move(held)},
                      {"left_out", std::move(left_out)},
                      {"conflicts", std::move(conflicts)}};
  return with_place(std::move(object), layer);
}

std::string result_text(const workspace::CommitResult& result, const CommitOptions& options,
                        const workspace::LayerFacts& layer) {
  const std::string into = place_of(layer);
  std::string text;
  for (const workspace::Conflict& one : result.conflicts) text += workspace::to_text(one) + "\n";
  for (const workspace::Held& one : result.held) text += workspace::to_text(one) + "\n";
  for (const workspace::LeftOut& one : result.left_out) text += workspace::to_text(one) + "\n";
  if (result.is_refused()) {
    return text +
           fmt::format(
               "nothing was taken over into {}: leave these out with --reject GLOB, or accept what "
               "is held with --accept GLOB, --accept-rule NAME or --accept-class CLASS\n",
               into);
  }
  for (const workspace::Change& change : result.applied) text += workspace::to_text(change) + "\n";
  if (options.dry_run) {
    return text + fmt::format("nothing was taken over into {}: this was a dry run\n", into);
  }
  if (result.applied.empty()) return text + fmt::format("nothing to take over into {}\n", into);
  return text + fmt::format("taken over into {}: {} ('glovebox undo' takes it back)\n", into,
                            result.applied.size());
}

Result<int> take_over(const CommitOptions& options) {
  TRY(FoundLayer found, find_layer(options.layer));
  workspace::Layer& layer = found.layer;
  TRY(const UniqueFd original, layer.open_original());
  workspace::CommitOptions asked;
  asked.selection = {options.only, options.reject, options.accept_rules, options.accept,
                     options.accept_classes};
  asked.act = options.dry_run ? workspace::Act::DryRun : workspace::Act::Apply;
  TRY(asked.rules, gate_rules(options.gate));
  TRY(const workspace::CommitResult result, workspace::commit(layer, original, asked));
  if (result.number != 0) TRY_VOID(remember_commit(layer.facts()));
  TRY_VOID(to_stdout(options.json ? result_json(result, layer.facts())
                                  : result_text(result, options, layer.facts())));
  return result.is_refused() ? kRefusedChanges : 0;
}

Result<int> take_back(const UndoOptions& options) {
  const bool is_named = !options.layer.empty() && options.layer != "last";
  TRY(FoundLayer found, is_named ? find_layer(options.layer) : find_committed_layer());
  workspace::Layer& layer = found.layer;
  TRY(const UniqueFd original, layer.open_original());
  TRY(const workspace::UndoResult result, workspace::undo(layer, original));
  std::string text;
  for (const workspace::Conflict& one : result.conflicts) text += workspace::to_text(one) + "\n";
  for (const std::string& path : result.restored) {
    text += fmt::format("restored {}\n", workspace::printable(path));
  }
  const std::string place = place_of(layer.facts());
  text +=
      result.conflicts.empty()
          ? fmt::format("taken back in {}: {}\n", place, result.restored.size())
          : fmt::format("nothing was taken back in {}: these changed after the commit\n", place);
  TRY_VOID(to_stdout(text));
  return result.conflicts.empty() ? 0 : kRefusedChanges;
}

Result<void> manage_layers(const LayersOptions& options) {
  for (const std::string& id : options.remove) {
    TRY(const workspace::LayerFacts removed, remove_named_layer(id));
    TRY_VOID(to_stdout(fmt::format("removed {}  {}\n", removed.id, place_of(removed))));
  }
  if (!options.remove.empty()) return {};
  TRY(const std::vector<ListedLayer> layers, list_all_layers());
  if (options.json) {
    json::array list;
    for (const ListedLayer& layer : layers) {
      json::object object{{"id", layer.facts.id},
                          {"origin", place_of(layer.facts)},
                          {"created_ns", layer.facts.created}};
      if (layer.kept) object["session"] = workspace::printable(layer.kept->session);
      list.push_back(std::move(object));
    }
    return to_stdout(json::serialize(list) + "\n");
  }
  std::string text;
  for (const ListedLayer& layer : layers) {
    text += fmt::format("{}  {}", layer.facts.id, place_of(layer.facts));
    if (layer.kept) text += fmt::format("  session {}", workspace::printable(layer.kept->session));
    text += '\n';
  }
  return to_stdout(text.empty() ? "no layers\n" : text);
}

template <class T>
int exit_code(const Result<T>& result) {
  if (!result) return refuse(result.error());
  if constexpr (std::is_same_v<T, int>) return *result;
  return 0;
}

}  // namespace

void add_diff_options(CLI::App& app, DiffOptions& options) {
  app.add_option("LAYER", options.layer, "Id of a layer, or 'last': of the last run here or above");
  CLI::Option_group* form = app.add_option_group("form", "Another form than a unified diff");
  form->add_flag("--stat", options.stat, "Lines that came and went, file by file");
  form->add_flag("--json", options.json, "One JSON object");
  form->add_flag("--tar", options.tar, "A tar.gz of what was added and changed");
  form->require_option(0, 1);
}

void add_commit_options(CLI::App& app, CommitOptions& options) {
  app.add_option("LAYER", options.layer, "Id of a layer, or 'last': of the last run here or above");
  app.add_option("--only", options.only, "Take over these paths alone: GLOB (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--reject", options.reject, "Leave these paths out: GLOB (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--accept", options.accept, "Take over these paths although they are held: GLOB")
      ->allow_extra_args(false);
  app.add_option("--accept-rule", options.accept_rules, "Let this rule of the gate pass: NAME")
      ->allow_extra_args(false);
  app.add_option("--accept-class", options.accept_classes,
                 fmt::format("Let this class of rules pass: {}",
                             fmt::join(workspace::rule_class_words(), ", ")))
      ->allow_extra_args(false);
  app.add_option("--gate", options.gate, "More rules for what is held: FILE");
  app.add_flag("--dry-run", options.dry_run, "Say what would be done, and do nothing");
  app.add_flag("--json", options.json, "Print one JSON object");
}

void add_undo_options(CLI::App& app, UndoOptions& options) {
  app.add_option("LAYER", options.layer,
                 "Id of a layer; without it, the one committed last here or above");
}

void add_layers_options(CLI::App& app, LayersOptions& options) {
  app.add_option("--remove", options.remove, "Remove a layer and what is in it: ID (repeatable)")
      ->allow_extra_args(false);
  app.add_flag("--json", options.json, "Print one JSON array");
}

int diff_command(const DiffOptions& options) { return exit_code(print_diff(options)); }
int commit_command(const CommitOptions& options) { return exit_code(take_over(options)); }
int undo_command(const UndoOptions& options) { return exit_code(take_back(options)); }
int layers_command(const LayersOptions& options) { return exit_code(manage_layers(options)); }

}  // namespace glovebox::app
