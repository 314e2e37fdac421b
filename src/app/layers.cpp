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

bool is_layered(const plan::SandboxSpec& spec) {
  return spec.workspace && spec.workspace->mode == plan::Workspace::Mode::Overlay;
}

std::string summary(const std::vector<workspace::Change>& changes) {
  std::string text = fmt::format("glovebox: {} {} kept apart from the original:\n", changes.size(),
                                 changes.size() == 1 ? "change is" : "changes are");
  for (std::size_t i = 0; i < changes.size() && i < kListedChanges; ++i) {
    text += fmt::format("  {}\n", workspace::to_text(changes[i]));
  }
  if (changes.size() > kListedChanges) {
    text += fmt::format("  ... and {} more\n", changes.size() - kListedChanges);
  }
  return text +
         "glovebox: see them with 'glovebox diff last', take them over with 'glovebox commit "
         "last'\n";
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

Result<std::optional<RunLayer>> RunLayer::make(plan::SandboxSpec& spec) {
  if (!is_layered(spec)) return std::optional<RunLayer>();
  TRY(workspace::LayerRoot root, open_layers());
  workspace::LayerRequest request;
  request.origin = spec.workspace->at.path;
  if (::geteuid() == 0) {
    // What the box makes belongs to the workspace's owner, as the box's user does.
    request.upper_uid = spec.workspace->at.owner;
    request.upper_gid = spec.workspace->at.group;
  }
  TRY(workspace::Layer layer, workspace::make_layer(root, request));
  TRY(UniqueFd hold, layer.hold());
  TRY(spec.workspace->layer, host::look_up(layer.mount_path()));
  spec.workspace->start_ns = static_cast<std::uint64_t>(layer.base().stamp.start);
  return std::optional<RunLayer>(RunLayer(std::move(root), std::move(layer), std::move(hold)));
}

void RunLayer::discard() {
  hold_.reset();
  // What cannot be removed now is collected later.
  (void)workspace::remove_layer(root_, layer_.facts().id);
}

Result<std::string> RunLayer::finish() {
  TRY(const UniqueFd upper, layer_.open_upper());
  TRY(const UniqueFd original, layer_.open_original());
  TRY(const std::vector<workspace::Change> changes, workspace::diff(layer_, upper, original));
  if (changes.empty()) {
    discard();
    return std::string();
  }
  hold_.reset();
  TRY_VOID(workspace::collect_layers(root_, workspace::Retention{}));
  return summary(changes);
}

void plan_with_some_layer(plan::SandboxSpec& spec) {
  if (!is_layered(spec)) return;
  spec.workspace->layer = host::PathFacts{.path = "/(a layer of this run)",
                                          .kind = host::PathKind::Directory,
                                          .device = 0,
                                          .inode = 0,
                                          .owner = spec.workspace->at.owner,
                                          .group = spec.workspace->at.group};
}

}  // namespace glovebox::app
