#include "app/commands.h"
#include "app/layer_options.h"
#include "app/layers.h"
#include "base/file.h"
#include "workspace/commit.h"
#include "workspace/diff.h"
#include "workspace/text.h"

#include <CLI/CLI.hpp>
#include <boost/json.hpp>

#include <fcntl.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

namespace json = boost::json;

constexpr int kRefusedChanges = 1;
// Names the layer that was committed last, in the directory of all layers.
constexpr const char* kLastCommit = "last-commit";

Result<void> to_stdout(std::string_view text) { return write_all(BorrowedFd(1), text); }

// Files and names in a layer are the box's: on a terminal nothing of them may drive it.
workspace::Reader reader_of_stdout() {
  return ::isatty(1) == 1 ? workspace::Reader::Terminal : workspace::Reader::Program;
}

Result<void> print_diff(const DiffOptions& options) {
  TRY(const workspace::LayerRoot root, open_layers());
  TRY(const workspace::Layer layer, workspace::open_layer(root, options.layer));
  TRY(const workspace::Uppers uppers, layer.open_uppers());
  TRY(const UniqueFd original, layer.open_original());
  TRY(const std::vector<workspace::Change> changes, workspace::diff(layer, uppers, original));
  if (options.json) return to_stdout(workspace::diff_to_json(changes) + "\n");
  if (options.stat) return workspace::write_stat(changes, uppers, original, to_stdout);
  if (options.tar) return workspace::write_tar_gz(changes, uppers, {}, to_stdout);
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

std::string result_json(const workspace::CommitResult& result) {
  json::array held;
  for (const workspace::Held& one : result.held) {
    held.push_back(json::object{
        {"path", workspace::printable(one.path)}, {"rule", one.rule}, {"why", one.why}});
  }
  json::array conflicts;
  for (const workspace::Conflict& one : result.conflicts) {
    conflicts.push_back(json::object{{"path", workspace::printable(one.path)}, {"why", one.why}});
  }
  const json::object object{{"version", 1},
                            {"committed", !result.is_refused() && result.number != 0},
                            {"applied", paths_of(result.applied)},
                            {"held", std::move(held)},
                            {"conflicts", std::move(conflicts)}};
  return json::serialize(object) + "\n";
}

std::string result_text(const workspace::CommitResult& result, const CommitOptions& options) {
  std::string text;
  for (const workspace::Conflict& one : result.conflicts) text += workspace::to_text(one) + "\n";
  for (const workspace::Held& one : result.held) text += workspace::to_text(one) + "\n";
  if (result.is_refused()) {
    return text +
           "nothing was taken over: leave these out with --reject GLOB, or accept what is held "
           "with --accept GLOB\n";
  }
  for (const workspace::Change& change : result.applied) text += workspace::to_text(change) + "\n";
  if (options.dry_run) return text + "nothing was taken over: this was a dry run\n";
  if (result.applied.empty()) return text + "nothing to take over\n";
  return text +
         fmt::format("taken over: {} ('glovebox undo' takes it back)\n", result.applied.size());
}

Result<void> remember_commit(const workspace::LayerRoot& root, const std::string& id) {
  TRY(const UniqueFd file,
      open_file_at(root.dir, kLastCommit, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  return write_all(file, id + "\n");
}

Result<int> take_over(const CommitOptions& options) {
  TRY(const workspace::LayerRoot root, open_layers());
  TRY(workspace::Layer layer, workspace::open_layer(root, options.layer));
  TRY(const UniqueFd original, layer.open_original());
  workspace::CommitOptions asked;
  asked.selection = {options.only, options.reject, options.accept_rules, options.accept};
  asked.act = options.dry_run ? workspace::Act::DryRun : workspace::Act::Apply;
  TRY(asked.rules, gate_rules(options.gate));
  TRY(const workspace::CommitResult result, workspace::commit(layer, original, asked));
  if (result.number != 0) TRY_VOID(remember_commit(root, layer.facts().id));
  TRY_VOID(to_stdout(options.json ? result_json(result) : result_text(result, options)));
  return result.is_refused() ? kRefusedChanges : 0;
}

Result<int> take_back(const UndoOptions& options) {
  TRY(const workspace::LayerRoot root, open_layers());
  std::string id = options.layer;
  if (id.empty()) {
    auto known = read_file_at(root.dir, kLastCommit, 256);
    if (!known) return fail(Code::NotFound, "nothing was committed yet");
    id = known->substr(0, known->find('\n'));
  }
  TRY(workspace::Layer layer, workspace::open_layer(root, id));
  TRY(const UniqueFd original, layer.open_original());
  TRY(const workspace::UndoResult result, workspace::undo(layer, original));
  std::string text;
  for (const workspace::Conflict& one : result.conflicts) text += workspace::to_text(one) + "\n";
  for (const std::string& path : result.restored) {
    text += fmt::format("restored {}\n", workspace::printable(path));
  }
  if (!result.conflicts.empty()) text += "nothing was taken back: these changed after the commit\n";
  TRY_VOID(to_stdout(text));
  return result.conflicts.empty() ? 0 : kRefusedChanges;
}

Result<void> manage_layers(const LayersOptions& options) {
  TRY(const workspace::LayerRoot root, open_layers());
  for (const std::string& id : options.remove) TRY_VOID(workspace::remove_layer(root, id));
  if (!options.remove.empty()) return {};
  TRY(const std::vector<workspace::LayerFacts> layers, workspace::list_layers(root));
  if (options.json) {
    json::array list;
    for (const workspace::LayerFacts& layer : layers) {
      list.push_back(json::object{{"id", layer.id},
                                  {"origin", workspace::printable(layer.origin)},
                                  {"created_ns", layer.created}});
    }
    return to_stdout(json::serialize(list) + "\n");
  }
  std::string text;
  for (const workspace::LayerFacts& layer : layers) {
    text += fmt::format("{}  {}\n", layer.id, workspace::printable(layer.origin));
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
  app.add_option("LAYER", options.layer, "Id of a layer, or 'last'");
  CLI::Option_group* form = app.add_option_group("form", "Another form than a unified diff");
  form->add_flag("--stat", options.stat, "Lines that came and went, file by file");
  form->add_flag("--json", options.json, "One JSON object");
  form->add_flag("--tar", options.tar, "A tar.gz of what was added and changed");
  form->require_option(0, 1);
}

void add_commit_options(CLI::App& app, CommitOptions& options) {
  app.add_option("LAYER", options.layer, "Id of a layer, or 'last'");
  app.add_option("--only", options.only, "Take over these paths alone: GLOB (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--reject", options.reject, "Leave these paths out: GLOB (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--accept", options.accept, "Take over these paths although they are held: GLOB")
      ->allow_extra_args(false);
  app.add_option("--accept-rule", options.accept_rules, "Let this rule of the gate pass: NAME")
      ->allow_extra_args(false);
  app.add_option("--gate", options.gate, "More rules for what is held: FILE");
  app.add_flag("--dry-run", options.dry_run, "Say what would be done, and do nothing");
  app.add_flag("--json", options.json, "Print one JSON object");
}

void add_undo_options(CLI::App& app, UndoOptions& options) {
  app.add_option("LAYER", options.layer, "Id of a layer; without it, the one committed last");
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
