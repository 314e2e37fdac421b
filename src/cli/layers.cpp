#include "cli/layers.h"

#include "cli/last_run.h"
#include "host/path_facts.h"
#include "workspace/diff/diff.h"
#include "workspace/layer/image.h"
#include "workspace/layer/persist_memory_layer.h"
#include "workspace/tree/printable.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <unistd.h>

namespace glovebox::app {
namespace {

constexpr std::size_t kListedChanges = 20;

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

Result<std::unique_ptr<session::Preparer>> open_preparer() {
  session::PreparerSettings settings;
  settings.around = session::Around::Covered;
  settings.policy_files = session::PolicyFiles::Allowed;
  settings.env_source = session::EnvSource::Process;
  // Without HOME there may be no such directories, and then there is nothing to hide.
  if (const auto state = state_directory()) {
    settings.layer_root = *state + "/layers";
    settings.hidden.push_back({*state, session::WhenMissing::Make});
  }
  if (const auto secrets = secrets_directory()) {
    settings.secrets = *secrets;
    settings.hidden.push_back({*secrets, session::WhenMissing::Make});
  }
  return session::Preparer::open(std::move(settings));
}

Result<RunLayer> RunLayer::begin(session::HeldLayer held, const std::vector<std::string>& command) {
  TRY_VOID(remember_run(held.layer().facts(), command));
  return RunLayer(std::move(held));
}

bool RunLayer::use_memory(const std::string& inside, UniqueFd& upper) {
  if (inside != held_.inside()) return false;
  held_.layer().use_memory(std::move(upper));
  return true;
}

bool RunLayer::is_full() const {
  if (held_.layer().backing() == plan::LayerBacking::Directory) return false;
  const auto upper = held_.layer().open_upper();
  if (!upper) return false;
  const auto room = workspace::read_room(*upper);
  return room && room->is_full();
}

// A box whose write was denied to a workspace has handed nothing out for it, and changed nothing.
Result<std::vector<workspace::Change>> RunLayer::changes() const {
  const workspace::Layer& layer = held_.layer();
  const auto uppers = layer.open_uppers();
  if (!uppers && uppers.error().code == Code::NotFound) return std::vector<workspace::Change>();
  if (!uppers) return unexpected(uppers.error());
  TRY(const UniqueFd original, layer.open_original());
  return workspace::diff(layer, *uppers, original);
}

Result<std::string> RunLayer::finish() {
  workspace::Layer& layer = held_.layer();
  TRY(const std::vector<workspace::Change> changed, changes());
  if (changed.empty()) {
    held_.remove();
    TRY_VOID(forget_layer(layer.facts()));
    return std::string();
  }
  if (layer.backing() == plan::LayerBacking::Memory) {
    TRY(const UniqueFd upper, layer.open_upper());
    TRY_VOID(workspace::settle(layer, upper));
  }
  held_.release();
  TRY(const std::string state, state_directory());
  if (!is_state_of_service(state)) {
    TRY_VOID(workspace::collect_layers(held_.root(), workspace::Retention{}));
  }
  collect_last_runs();
  return summary(changed, layer.facts());
}

}  // namespace glovebox::app
