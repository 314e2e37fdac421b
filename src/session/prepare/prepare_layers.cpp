// The layers of a box: made, opened and held.
#include "session/prepare/prepare_draft.h"
#include "workspace/layer/layer_quota.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include <unistd.h>

namespace glovebox::session {
namespace {

using Root = std::shared_ptr<const workspace::LayerRoot>;

Result<HeldLayer> hold_new(const Root& root, workspace::Layer layer, const plan::Workspace& over) {
  auto hold = layer.hold();
  if (!hold) {
    (void)workspace::remove_layer(*root, layer.facts().id);  // else it is collected later
    return unexpected(std::move(hold).error());
  }
  return HeldLayer(root, std::move(layer), *std::move(hold), IfUnused::Remove, over.path_inside());
}

// A fresh layer, over the original or over what `source` says.
Result<HeldLayer> make_layer(const Root& root, const plan::Workspace& over,
                             const LayerSource* source, workspace::LayerRequest request) {
  request.origin = over.at.path;
  if (::geteuid() == 0) {
    // What the box makes belongs to the workspace's owner, as the box's user does.
    request.upper_uid = over.at.owner;
    request.upper_gid = over.at.group;
  }
  if (source != nullptr && source->kind == LayerSource::Kind::Stack) {
    TRY(const workspace::Layer under, workspace::open_layer(*root, source->id));
    TRY_VOID(under.open_original());  // it is the directory that the layer is about
    request.below = under.facts().below;
    request.below.insert(request.below.begin(), source->id);
    request.base = under.base();
  } else if (source != nullptr) {
    request.fill = source->fill;
    TRY(request.base, source->make_base());
  }
  TRY(workspace::Layer layer, workspace::make_layer(*root, request));
  return hold_new(root, std::move(layer), over);
}

// The layer of an earlier box of the same session.
Result<HeldLayer> open_layer(const Root& root, const plan::Workspace& over, const std::string& id) {
  TRY(workspace::Layer layer, workspace::open_layer(*root, id));
  if (layer.facts().origin != over.at.path) {
    return fail(Code::Denied, "{}: layer {} is about {}", over.at.path, id, layer.facts().origin);
  }
  if (layer.backing() != plan::LayerBacking::Directory) {
    return fail(Code::Unsupported, "layer {} has a budget, and no other box can go on with it", id);
  }
  TRY_VOID(layer.open_original());
  TRY(UniqueFd hold, layer.hold());
  return HeldLayer(root, std::move(layer), std::move(hold), IfUnused::Leave, over.path_inside());
}

Result<HeldLayer> hold_layer(const Root& root, plan::Workspace& over, const LayerSources& sources,
                             const workspace::LayerRequest& request) {
  const auto found = sources.find(over.at.path);
  const LayerSource* source = found == sources.end() ? nullptr : &found->second;
  const bool goes_on = source != nullptr && source->kind == LayerSource::Kind::GoOn;
  TRY(HeldLayer held,
      goes_on ? open_layer(root, over, source->id) : make_layer(root, over, source, request));
  TRY_VOID(held.hold_frozen());
  TRY_VOID(workspace::plan_layer(held.layer(), over));
  return held;
}

bool has_layers(const plan::SandboxSpec& spec) {
  return std::ranges::find(spec.workspaces, WorkspaceMode::Overlay, &plan::Workspace::mode) !=
         spec.workspaces.end();
}

// A layer is known by the directory it is about.
Result<void> check_layered_once(const plan::SandboxSpec& spec) {
  std::set<std::string> layered;
  for (const plan::Workspace& place : spec.workspaces) {
    if (place.mode != WorkspaceMode::Overlay || layered.insert(place.at.path).second) continue;
    return fail(Code::Invalid, "{} is handed in twice with a layer", place.at.path);
  }
  return {};
}

}  // namespace

Result<Root> Preparer::layer_root() {
  const std::scoped_lock lock(mutex_);
  if (layers_) return layers_;
  const std::string& path = settings_.layer_root;
  if (path.empty()) {
    return fail(Code::NotFound,
                "no directory for layers: HOME is not set (set it, or GLOVEBOX_STATE, or use "
                "--workspace DIR:rw)");
  }
  std::error_code problem;
  const auto state = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(state, problem);
  if (problem) {
    return fail(Code::Os, "make {} for layers: {} (set GLOVEBOX_STATE, or use --workspace DIR:rw)",
                state.string(), problem.message());
  }
  TRY(workspace::LayerRoot root, workspace::open_layer_root(path));
  layers_ = std::make_shared<const workspace::LayerRoot>(std::move(root));
  return layers_;
}

Result<plan::SandboxSpec> Preparer::with_some_layers(plan::SandboxSpec spec) {
  TRY_VOID(check_layered_once(spec));
  if (!has_layers(spec)) return spec;
  TRY(const Root root, layer_root());
  TRY(const workspace::QuotaChoice quota, workspace::choose_for(root->path, spec));
  for (plan::Workspace& place : spec.workspaces) {
    if (place.mode == WorkspaceMode::Overlay) workspace::plan_some_layer(quota, place);
  }
  return spec;
}

Result<std::vector<HeldLayer>> Preparer::make_layers(Draft& draft, const LayerSources& sources) {
  std::vector<HeldLayer> layers;
  TRY_VOID(check_layered_once(draft.spec));
  if (!has_layers(draft.spec)) return layers;
  TRY(const Root root, layer_root());
  workspace::LayerRequest request;
  TRY(request.quota, workspace::choose_for(root->path, draft.spec));
  // Layers of runs are told apart by their time: a later one has a later time, whatever the clock
  // says.
  if (!draft.asked.command.empty()) {
    TRY(request.after, workspace::newest_layer_time(*root));
  }
  for (std::size_t i = 0; i < draft.spec.workspaces.size(); ++i) {
    plan::Workspace& place = draft.spec.workspaces[i];
    if (place.mode != WorkspaceMode::Overlay) continue;
    TRY(HeldLayer held, hold_layer(root, place, sources, request));
    const bool is_bind = i >= draft.asked.workspaces.size();
    if (is_bind) draft.workspaces.push_back({place.at.path, place.mode});
    WorkspaceInfo& info = is_bind ? draft.workspaces.back() : draft.workspaces[i];
    info.inside = place.inside;
    info.layer_id = held.layer().facts().id;
    info.below = held.layer().facts().below;
    layers.push_back(std::move(held));
  }
  return layers;
}

}  // namespace glovebox::session
