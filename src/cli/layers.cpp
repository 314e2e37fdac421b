#include "cli/layers.h"

#include "cli/last_run.h"
#include "host/path_facts.h"
#include "workspace/diff/diff.h"
#include "workspace/layer/image.h"
#include "workspace/layer/persist_memory_layer.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <unistd.h>

namespace glovebox::app {
namespace {

constexpr std::size_t kListedChanges = 20;

bool is_layered(const plan::Workspace& workspace) {
  return workspace.mode == plan::Workspace::Mode::Overlay;
}

// What the person can call a layer by from where they are.
std::string name_from_here(const workspace::LayerFacts& layer) {
  const auto here = current_directory();
  if (!here || !host::is_within(*here, layer.origin)) return layer.id;
  const auto last = find_last_run(*here);
  return last && last->layer == layer.id ? "last" : layer.id;
}

std::string summary(const std::vector<workspace::Change>& changes,
                    const workspace::LayerFacts& layer) {
  std::string text =
      fmt::format("glovebox: {} in {} {} kept apart from the original:\n",
                  changes.size() == 1 ? "1 change" : fmt::format("{} changes", changes.size()),
                  workspace::printable(layer.origin), changes.size() == 1 ? "is" : "are");
  for (std::size_t i = 0; i < changes.size() && i < kListedChanges; ++i) {
    text += fmt::format("  {}\n", workspace::to_text(changes[i]));
  }
  if (changes.size() > kListedChanges) {
    text += fmt::format("  ... and {} more\n", changes.size() - kListedChanges);
  }
  const std::string name = name_from_here(layer);
  return text + fmt::format(
                    "glovebox: see them with 'glovebox diff {}', take them over with 'glovebox "
                    "commit {}'\n",
                    name, name);
}

}  // namespace

Result<std::string> state_directory() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr && *value == '/' ? value : "";
  };
  if (const std::string chosen = variable("GLOVEBOX_STATE"); !chosen.empty()) return chosen;
  if (::geteuid() == 0) return "/var/lib/glovebox";
  if (const std::string state = variable("XDG_STATE_HOME"); !state.empty()) {
    return state + "/glovebox";
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    return home + "/.local/state/glovebox";
  }
  return fail(Code::NotFound,
              "no directory for layers: HOME is not set (set it, or GLOVEBOX_STATE, or use "
              "--workspace DIR:rw)");
}

bool is_state_of_service(const std::string& directory) {
  std::error_code problem;
  return std::filesystem::exists(directory + "/sessions.db", problem);
}

Result<std::string> secrets_directory() {
  const char* chosen = std::getenv("GLOVEBOX_SECRETS");
  if (chosen != nullptr && *chosen == '/') return std::string(chosen);
  TRY(const std::string state, state_directory());
  return state + "/secrets";
}

Result<workspace::LayerRoot> open_layers() {
  TRY(const std::string state, state_directory());
  std::error_code problem;
  std::filesystem::create_directories(state, problem);
  if (problem) {
    return fail(Code::Os, "make {} for layers: {} (set GLOVEBOX_STATE, or use --workspace DIR:rw)",
                state, problem.message());
  }
  return workspace::open_layer_root(state + "/layers");
}

Result<RunLayer> RunLayer::make(const workspace::QuotaChoice& quota, plan::Workspace& over,
                                const std::vector<std::string>& command) {
  TRY(workspace::LayerRoot root, open_layers());
  TRY(workspace::Layer layer, workspace::make_layer_over(root, quota, over));
  TRY(UniqueFd hold, layer.hold());
  TRY_VOID(remember_run(layer.facts(), command));
  return RunLayer(std::move(root), std::move(layer), std::move(hold), over.path_inside());
}

Result<std::vector<RunLayer>> make_layers(plan::SandboxSpec& spec) {
  std::vector<RunLayer> layers;
  if (std::ranges::none_of(spec.workspaces, is_layered)) return layers;
  TRY(const workspace::LayerRoot root, open_layers());
  TRY(const workspace::QuotaChoice quota, workspace::choose_for(root.path, spec));
  for (plan::Workspace& workspace : spec.workspaces) {
    if (!is_layered(workspace)) continue;
    TRY(RunLayer layer, RunLayer::make(quota, workspace, spec.command));
    layers.push_back(std::move(layer));
  }
  return layers;
}

bool RunLayer::use_memory(const std::string& inside, UniqueFd& upper) {
  if (inside != inside_) return false;
  layer_.use_memory(std::move(upper));
  return true;
}

bool RunLayer::is_full() const {
  if (layer_.backing() == workspace::Backing::Directory) return false;
  const auto upper = layer_.open_upper();
  if (!upper) return false;
  const auto room = workspace::read_room(*upper);
  return room && room->is_full();
}

void RunLayer::discard() {
  hold_.reset();
  // What cannot be removed now is collected later.
  (void)workspace::remove_layer(root_, layer_.facts().id);
}

// A box whose write was denied to a workspace has handed nothing out for it, and changed nothing.
Result<std::vector<workspace::Change>> RunLayer::changes() {
  const auto uppers = layer_.open_uppers();
  if (!uppers && uppers.error().code == Code::NotFound) return std::vector<workspace::Change>();
  if (!uppers) return unexpected(uppers.error());
  TRY(const UniqueFd original, layer_.open_original());
  return workspace::diff(layer_, *uppers, original);
}

Result<std::string> RunLayer::finish() {
  TRY(const std::vector<workspace::Change> changed, changes());
  if (changed.empty()) {
    discard();
    TRY_VOID(forget_layer(layer_.facts()));
    return std::string();
  }
  if (layer_.backing() == workspace::Backing::Tmpfs) {
    TRY(const UniqueFd upper, layer_.open_upper());
    TRY_VOID(workspace::settle(layer_, upper));
  }
  hold_.reset();
  TRY(const std::string state, state_directory());
  if (!is_state_of_service(state)) {
    TRY_VOID(workspace::collect_layers(root_, workspace::Retention{}));
  }
  collect_last_runs();
  return summary(changed, layer_.facts());
}

Result<void> plan_with_some_layer(plan::SandboxSpec& spec) {
  if (std::ranges::none_of(spec.workspaces, is_layered)) return {};
  TRY(const workspace::LayerRoot root, open_layers());
  TRY(const workspace::QuotaChoice quota, workspace::choose_for(root.path, spec));
  for (plan::Workspace& workspace : spec.workspaces) {
    if (is_layered(workspace)) workspace::plan_some_layer(quota, workspace);
  }
  return {};
}

}  // namespace glovebox::app
