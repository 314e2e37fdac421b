#include "app/layers.h"

#include "host/path_facts.h"
#include "workspace/diff.h"

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

std::string summary(const std::vector<workspace::Change>& changes, std::string_view name) {
  std::string text = fmt::format("glovebox: {} {} kept apart from the original:\n", changes.size(),
                                 changes.size() == 1 ? "change is" : "changes are");
  for (std::size_t i = 0; i < changes.size() && i < kListedChanges; ++i) {
    text += fmt::format("  {}\n", workspace::to_text(changes[i]));
  }
  if (changes.size() > kListedChanges) {
    text += fmt::format("  ... and {} more\n", changes.size() - kListedChanges);
  }
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

Result<RunLayer> RunLayer::make(plan::Workspace& over) {
  TRY(workspace::LayerRoot root, open_layers());
  workspace::LayerRequest request;
  request.origin = over.at.path;
  if (::geteuid() == 0) {
    // What the box makes belongs to the workspace's owner, as the box's user does.
    request.upper_uid = over.at.owner;
    request.upper_gid = over.at.group;
  }
  TRY(workspace::Layer layer, workspace::make_layer(root, request));
  TRY(UniqueFd hold, layer.hold());
  TRY(over.layer, host::look_up(layer.mount_path()));
  over.start_ns = static_cast<std::uint64_t>(layer.base().stamp.start);
  return RunLayer(std::move(root), std::move(layer), std::move(hold));
}

Result<std::vector<RunLayer>> make_layers(plan::SandboxSpec& spec) {
  std::vector<RunLayer> layers;
  for (plan::Workspace& workspace : spec.workspaces) {
    if (!is_layered(workspace)) continue;
    TRY(RunLayer layer, RunLayer::make(workspace));
    layers.push_back(std::move(layer));
  }
  return layers;
}

void RunLayer::discard() {
  hold_.reset();
  // What cannot be removed now is collected later.
  (void)workspace::remove_layer(root_, layer_.facts().id);
}

Result<std::string> RunLayer::finish(std::string_view name) {
  TRY(const workspace::Uppers uppers, layer_.open_uppers());
  TRY(const UniqueFd original, layer_.open_original());
  TRY(const std::vector<workspace::Change> changes, workspace::diff(layer_, uppers, original));
  if (changes.empty()) {
    discard();
    return std::string();
  }
  hold_.reset();
  TRY_VOID(workspace::collect_layers(root_, workspace::Retention{}));
  return summary(changes, name);
}

void plan_with_some_layer(plan::SandboxSpec& spec) {
  for (plan::Workspace& workspace : spec.workspaces) {
    if (!is_layered(workspace)) continue;
    workspace.layer = host::PathFacts{.path = "/(a layer of this run)",
                                      .kind = host::PathKind::Directory,
                                      .device = 0,
                                      .inode = 0,
                                      .owner = workspace.at.owner,
                                      .group = workspace.at.group};
  }
}

}  // namespace glovebox::app
