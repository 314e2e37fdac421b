#include "session/prepare/prepare.h"

#include "authority/capability.h"
#include "authority/terms.h"
#include "host/path_facts.h"
#include "host/resolve_authority.h"
#include "host/secrets.h"
#include "plan/make_plan.h"
#include "request/directories.h"
#include "request/network_authority.h"
#include "session/box/self_test.h"
#include "session/prepare/prepare_draft.h"
#include "workspace/layer/layer_quota.h"

#include <algorithm>

#include <sys/file.h>
#include <unistd.h>

namespace glovebox::session {

using authority::Effect;
using authority::Rule;
using Mode = plan::Workspace::Mode;

namespace {

Mode to_plan(WorkspaceMode mode, Persist persist) {
  switch (mode) {
    case WorkspaceMode::Read: return Mode::Read;
    case WorkspaceMode::Write: return Mode::Write;
    case WorkspaceMode::Overlay: break;
  }
  return persist == Persist::Keep ? Mode::Overlay : Mode::Discard;
}

WorkspaceMode from_policy(policy::WorkspaceMode mode) {
  switch (mode) {
    case policy::WorkspaceMode::ReadOnly: return WorkspaceMode::Read;
    case policy::WorkspaceMode::Overlay: return WorkspaceMode::Overlay;
    case policy::WorkspaceMode::ReadWrite: return WorkspaceMode::Write;
  }
  return WorkspaceMode::Read;
}

// More lets a box do more to the original.
int reach(WorkspaceMode mode) {
  switch (mode) {
    case WorkspaceMode::Read: return 0;
    case WorkspaceMode::Overlay: return 1;
    case WorkspaceMode::Write: return 2;
  }
  return 0;
}

// Whether what a box does there stays when the box is gone.
bool is_kept(Mode mode) { return mode == Mode::Write || mode == Mode::Overlay; }

Result<authority::Capability> use_of(const plan::Workspace& place) {
  TRY(const auto path, authority::AbsolutePath::parse(place.at.path));
  const bool is_written = place.mode == Mode::Write;
  return policy::use_of_path(is_written ? policy::PathUse::Write : policy::PathUse::Read, path);
}

// Stands for what is made later, so that everything else can be refused before.
host::PathFacts not_made_yet(std::string path) {
  return {.path = std::move(path),
          .kind = host::PathKind::Directory,
          .device = 0,
          .inode = 0,
          .owner = ::geteuid(),
          .group = ::getegid()};
}

// The smaller of a policy's bound and that of whoever asks. The second never says what a workspace
// is when its request does not.
std::optional<policy::WorkspaceMode> less_reaching(std::optional<policy::WorkspaceMode> of_policy,
                                                   WorkspaceMode of_caller) {
  if (of_policy && reach(from_policy(*of_policy)) <= reach(of_caller)) return of_policy;
  switch (of_caller) {
    case WorkspaceMode::Read: return policy::WorkspaceMode::ReadOnly;
    case WorkspaceMode::Overlay: return policy::WorkspaceMode::Overlay;
    case WorkspaceMode::Write: break;
  }
  return of_policy;
}

// A budget that whoever asks is held to is not theirs to give up.
Result<void> check_waived(const std::set<std::string>& waived, const BoxRequest& request) {
  using authority::BudgetKind;
  if (!request.ceiling) return {};
  const authority::AuthoritySet& ceiling = *request.ceiling;
  const std::pair<const char*, bool> bounds[] = {
      {"limit.memory", ceiling.budget(BudgetKind::Memory).has_value()},
      {"limit.pids", ceiling.budget(BudgetKind::Pids).has_value()},
      {"limit.cpu-time", ceiling.budget(BudgetKind::Cpu).has_value()},
      {"limit.disk", ceiling.budget(BudgetKind::Disk) || ceiling.budget(BudgetKind::Inodes)},
      {"limit.cpus", request.cpus_milli.has_value()},
      // It would be given sockets that the ceiling does not grant.
      {"host-sockets", true},
  };
  for (const auto& [waiver, is_bound] : bounds) {
    if (!is_bound || !waived.contains(waiver)) continue;
    return fail(Code::Denied, "waive {}: what you may hand in is bounded by it", waiver);
  }
  return {};
}

// A place of a request that was prepared before must be what it was then.
Result<void> check_known(const std::optional<KnownPlaces>& known, const std::string& asked,
                         const host::PathFacts& found) {
  if (!known) return {};
  if (found.path != asked) {
    return fail(Code::Denied, "{}: it leads to {} now, which is not what the session was handed",
                asked, found.path);
  }
  const auto mark = known->find(asked);
  if (mark == known->end() || mark->second == FileMark{found.device, found.inode}) return {};
  return fail(Code::Denied, "{}: something else is there now than what the session was handed",
              asked);
}

// The same for one that is not there.
Result<void> check_known_missing(const std::optional<KnownPlaces>& known, const std::string& asked,
                                 const std::string& resolved) {
  if (!known) return {};
  if (resolved == asked && !known->contains(asked)) return {};
  return fail(Code::Denied, "{}: what the session was handed is not there any more", asked);
}

// An interpreter is looked for by its name each time: it must be found where it was. Of a session
// of a former service, and of a checkpoint, that is not known.
Result<void> check_known_interpreter(const std::optional<KnownPlaces>& known,
                                     const host::PathFacts& found) {
  if (!known || known->empty() || known->contains(found.path)) {
    return check_known(known, found.path, found);
  }
  return fail(Code::Denied, "python.interpreter: {} is not what the session was handed",
              found.path);
}

// And for paths of capabilities: each still means itself, and was resolved to itself when the spec
// was filled.
Result<void> check_known_rules(const authority::AuthoritySet& set, const plan::SandboxSpec& spec) {
  for (const Rule& rule : set.rules()) {
    TRY(const auto one, authority::AuthoritySet::from_rules(std::vector<Rule>{rule}));
    TRY(const host::ResolvedAuthority resolved, host::resolve_paths(one));
    const bool is_used = std::ranges::all_of(
        resolved.paths, [&](const auto& path) { return spec.paths.contains(path.first); });
    if (resolved.set == one && is_used) continue;
    return fail(Code::Denied, "{}: the path leads elsewhere than when the session was handed it",
                authority::to_text(rule));
  }
  return {};
}

// For a plan that is only looked at.
Result<plan::SandboxSpec> with_some_layers(plan::SandboxSpec spec, const std::string& root) {
  TRY(const workspace::QuotaChoice quota, workspace::choose_for(root, spec));
  for (plan::Workspace& place : spec.workspaces) {
    if (place.mode == Mode::Overlay) workspace::plan_some_layer(quota, place);
  }
  return spec;
}

}  // namespace

HeldLayer::~HeldLayer() {
  if (!hold_) return;
  // A launcher that is just being started has a copy of the descriptor, until it executes.
  (void)::flock(hold_.get(), LOCK_UN);
  hold_.reset();
  frozen_.clear();
  if (if_unused_ == IfUnused::Leave) return;
  // What cannot be removed now is collected when the next service starts.
  (void)workspace::remove_layer(*root_, layer_.facts().id);
}

Result<void> HeldLayer::hold_frozen() {
  for (const std::string& id : layer_.facts().below) {
    TRY(const workspace::Layer frozen, workspace::open_layer(*root_, id));
    TRY(UniqueFd hold, frozen.hold());
    frozen_.push_back(std::move(hold));
  }
  return {};
}

void HeldLayer::keep(std::vector<UniqueFd>& holds) {
  holds.push_back(std::move(hold_));
  for (UniqueFd& hold : frozen_) holds.push_back(std::move(hold));
  frozen_.clear();
}

Result<std::unique_ptr<Preparer>> Preparer::open(PreparerSettings settings) {
  TRY(workspace::LayerRoot root, workspace::open_layer_root(settings.layer_root));
  std::unique_ptr<Preparer> preparer(new Preparer(std::move(settings)));
  preparer->layers_ = std::make_shared<const workspace::LayerRoot>(std::move(root));
  std::string& secrets = preparer->settings_.secrets;
  std::vector<std::string> later = preparer->settings_.hidden_later;
  if (!secrets.empty()) {
    TRY(secrets, host::resolve_new_path(secrets));
    later.push_back(secrets);
  }
  TRY_VOID(preparer->hidden_.open(preparer->settings_.hidden, std::move(later)));
  std::string& extension = preparer->settings_.python_extension;
  if (!extension.empty()) {
    TRY(extension, host::resolve_new_path(extension));
  }
  return preparer;
}

Result<host::HostFacts> Preparer::facts() {
  const std::scoped_lock lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (!facts_ || now - facts_read_ > kFactsLife) {
    TRY(facts_, host::read_facts());
    facts_read_ = now;
  }
  return *facts_;
}

void Preparer::forget_facts() {
  const std::scoped_lock lock(mutex_);
  facts_.reset();
}

Result<Preparer::Draft> Preparer::draft(const BoxRequest& request,
                                        const std::optional<KnownPlaces>& known) {
  TRY_VOID(check_values(request));
  Draft draft;
  draft.asked = request;
  draft.known = known;
  if (!known) {
    TRY(host::ResolvedAuthority handed, host::resolve_paths(request.handed));
    draft.asked.handed = std::move(handed.set);
  }
  plan::SandboxSpec& spec = draft.spec;
  spec.resident = plan::Resident::Agent;
  spec.backend = request.backend.value_or(plan::Backend::Process);
  spec.cpus_milli = request.cpus_milli;
  spec.uid = request.uid;
  spec.gid = request.gid;
  spec.hostname = request.hostname;
  spec.waived = request.waived;
  TRY_VOID(apply_policy(draft));
  TRY_VOID(check_waived(spec.waived, request));
  if (request.most_workspace) draft.most = less_reaching(draft.most, *request.most_workspace);
  TRY_VOID(add_authority(draft));
  if (known) {
    TRY_VOID(check_known_rules(request.handed, spec));
    if (draft.asked.ceiling != request.ceiling) {
      return fail(Code::Denied, "a path of the session's ceiling leads elsewhere than it did");
    }
  }
  TRY_VOID(add_secrets(draft));
  TRY_VOID(add_places(draft));
  TRY_VOID(add_python(draft));
  for (plan::EnvEntry& entry : draft.asked.env) entry.value.clear();
  if (!draft.asked.idle_timeout) draft.asked.idle_timeout = settings_.default_idle;
  draft.asked.backend = draft.python ? draft.python->backend : spec.backend;
  draft.asked.cpus_milli = spec.cpus_milli;
  draft.asked.waived = spec.waived;
  draft.asked.policy.document.clear();
  return draft;
}

// What the policy grants is in the spec already; what was handed in joins it, and nothing of both
// goes beyond the ceiling or reaches what is hidden.
Result<void> Preparer::add_authority(Draft& draft) {
  std::vector<Rule> rules;
  for (const plan::EnvEntry& entry : draft.asked.env) {
    auto name = authority::EnvName::parse(entry.name);
    if (!name) return fail(Code::Invalid, "env: {}", name.error().message);
    rules.push_back({Effect::Allow, authority::Env{*std::move(name), std::nullopt}});
    draft.spec.caller_env.push_back(entry);
  }
  TRY(const authority::AuthoritySet env, authority::AuthoritySet::from_rules(rules));
  TRY(host::ResolvedAuthority handed, host::resolve_paths(draft.asked.handed));
  draft.spec.authority = draft.spec.authority.unite(handed.set).unite(env);
  if (draft.asked.ceiling) {
    TRY(const host::ResolvedAuthority ceiling, host::resolve_paths(*draft.asked.ceiling));
    draft.spec.authority = draft.spec.authority.attenuate(ceiling.set);
    draft.asked.ceiling = ceiling.set;
  }
  if (draft.asked.network_ceiling) {
    TRY(draft.spec.authority,
        with_network_within(draft.spec.authority, *draft.asked.network_ceiling));
  }
  draft.spec.paths.merge(handed.paths);
  std::vector<Rule> own;
  TRY(const std::vector<std::string> hidden, hidden_.paths());
  for (const std::string& path : hidden) {
    TRY(auto place, authority::AbsolutePath::parse(path));
    own.push_back({Effect::Deny, policy::use_of_path(policy::PathUse::Read, std::move(place))});
  }
  // The one thing of ours that a box may see, if it has a Python host.
  if (draft.asked.python && !settings_.python_extension.empty()) {
    TRY(auto place, authority::AbsolutePath::parse(settings_.python_extension));
    own.push_back({Effect::Allow, authority::ReadPath{std::move(place)}});
  }
  TRY(const authority::AuthoritySet denials, authority::AuthoritySet::from_rules(own));
  TRY(host::ResolvedAuthority denied, host::resolve_paths(denials));
  draft.spec.authority = draft.spec.authority.unite(denied.set);
  draft.spec.paths.merge(denied.paths);
  return {};
}

// By name, within the ceiling. Each time anew: a box that is made again finds what is kept by then.
Result<void> Preparer::add_secrets(Draft& draft) const {
  const std::vector<Rule> rules = draft.spec.authority.rules();
  const auto asked = std::ranges::find_if(rules, [](const Rule& rule) {
    return rule.effect == Effect::Allow &&
           std::holds_alternative<authority::Secret>(rule.capability);
  });
  if (asked == rules.end()) return {};
  if (settings_.secrets.empty()) {
    return fail(Code::Unsupported, "{}: no secrets are kept for boxes that are made here",
                authority::to_text(asked->capability));
  }
  TRY(draft.spec.secrets, host::find_secrets(draft.spec.authority, settings_.secrets));
  return {};
}

Result<void> Preparer::add_places(Draft& draft) {
  for (WorkspaceRequest& one : draft.asked.workspaces) TRY_VOID(add_workspace(draft, one));
  for (BindRequest& one : draft.asked.binds) TRY_VOID(add_bind(draft, one));
  if (draft.asked.prove) TRY_VOID(add_probe(draft));
  return {};
}

// What only the Python host can keep leaves the plan here, and the interpreter's files come in:
// handed in like any other place, and by the words of the same caller.
Result<void> Preparer::add_python(Draft& draft) {
  if (!draft.asked.python) return {};
  if (settings_.python_extension.empty()) {
    return fail(Code::Unsupported, "there are no Python sessions here");
  }
  const std::size_t handed = draft.spec.workspaces.size();
  TRY(draft.python, plan_python(draft.asked, settings_.python_extension, draft.spec));
  for (std::size_t i = handed; i < draft.spec.workspaces.size(); ++i) {
    const plan::Workspace& place = draft.spec.workspaces[i];
    TRY_VOID(check_place(draft, place));
    TRY_VOID(check_interpreter_place(place.at.path));
    TRY_VOID(check_known_interpreter(draft.known, place.at));
  }
  return {};
}

Result<void> Preparer::check_interpreter_place(const std::string& path) const {
  if (settings_.interpreter_roots.empty()) return {};
  for (const std::string& root : settings_.interpreter_roots) {
    const auto resolved = host::resolve_new_path(root);
    if (resolved && host::is_within(path, *resolved)) return {};
  }
  return fail(Code::Denied, "python.interpreter: {} is not where interpreters may be", path);
}

Result<void> Preparer::add_workspace(Draft& draft, WorkspaceRequest& asked) {
  const WorkspaceMode usual = draft.most ? from_policy(*draft.most) : WorkspaceMode::Overlay;
  asked.mode = asked.mode.value_or(usual);
  if (asked.mode == WorkspaceMode::Overlay) asked.persist = asked.persist.value_or(Persist::Keep);
  if (draft.most && reach(*asked.mode) > reach(from_policy(*draft.most))) {
    return fail(Code::Denied, "workspace {}: the policy allows no more than {}", asked.path,
                policy::to_text(*draft.most));
  }
  plan::Workspace place;
  place.mode = to_plan(*asked.mode, asked.persist.value_or(Persist::Keep));
  auto found = host::look_up(asked.path);
  if (found) {
    place.at = *std::move(found);
    TRY_VOID(check_known(draft.known, asked.path, place.at));
    if (place.at.kind != host::PathKind::Directory) {
      return fail(Code::Invalid, "workspace {}: not a directory", asked.path);
    }
  } else if (found.error().code == Code::NotFound) {
    TRY(std::string path, host::resolve_new_path(asked.path));
    TRY_VOID(check_known_missing(draft.known, asked.path, path));
    place.at = not_made_yet(std::move(path));
    draft.missing.push_back(draft.spec.workspaces.size());
  } else {
    return unexpected(std::move(found).error());
  }
  TRY_VOID(check_place(draft, place));
  asked.path = place.at.path;
  draft.workspaces.push_back(
      {place.at.path, *asked.mode, asked.persist.value_or(Persist::Keep), {}});
  draft.spec.workspaces.push_back(std::move(place));
  return {};
}

// The program that tries the box's walls. It is the service's own choice, so no bound of the
// caller's concerns it.
Result<void> Preparer::add_probe(Draft& draft) {
  auto found = host::look_up(settings_.probe);
  if (!found) return fail(Code::Unsupported, "prove: {}", found.error().message);
  plan::Workspace place;
  place.mode = Mode::Read;
  place.at = *std::move(found);
  place.inside = kProbeInside;
  draft.spec.workspaces.push_back(std::move(place));
  return {};
}

Result<void> Preparer::add_bind(Draft& draft, BindRequest& asked) {
  plan::Workspace place;
  place.mode = asked.mode == BindMode::Write ? Mode::Write : Mode::Read;
  if (draft.most && asked.mode == BindMode::Write &&
      *draft.most != policy::WorkspaceMode::ReadWrite) {
    return fail(Code::Denied, "bind {}: the policy allows no more than {}", asked.source,
                policy::to_text(*draft.most));
  }
  auto found = host::look_up(asked.source);
  if (!found) return fail(found.error().code, "bind {}", found.error().message);
  place.at = *std::move(found);
  TRY_VOID(check_known(draft.known, asked.source, place.at));
  if (asked.dest.empty()) asked.dest = place.at.path;
  if (asked.dest != place.at.path) place.inside = asked.dest;
  TRY_VOID(check_place(draft, place));
  asked.source = place.at.path;
  draft.spec.workspaces.push_back(std::move(place));
  return {};
}

// Handing a place in is a grant like another: within the ceiling, and nothing of ours.
Result<void> Preparer::check_place(const Draft& draft, const plan::Workspace& place) {
  TRY(const std::vector<std::string> hidden, hidden_.paths());
  for (const std::string& path : hidden) {
    const bool is_inside = host::is_within(place.at.path, path);
    const bool is_around = is_kept(place.mode) && host::is_within(path, place.at.path);
    if (is_inside)
      return fail(Code::Denied, "{}: this belongs to the service itself", place.at.path);
    if (!is_around) continue;
    return fail(Code::Denied, "{}: {} in it belongs to the service itself", place.at.path, path);
  }
  if (!draft.asked.ceiling) return {};
  TRY(const authority::Capability use, use_of(place));
  if (draft.asked.ceiling->decide(use).effect == Effect::Allow) return {};
  return fail(Code::Denied, "{}: not within what you may hand in", place.at.path);
}

Result<void> Preparer::make_directories(Draft& draft) {
  for (const std::size_t index : draft.missing) {
    plan::Workspace& place = draft.spec.workspaces.at(index);
    TRY_VOID(make_directories_for(place.at.path));
    TRY(host::PathFacts made, host::look_up(place.at.path));
    if (made.path != place.at.path || made.kind != host::PathKind::Directory) {
      return fail(Code::Denied, "workspace {}: something else is there now", place.at.path);
    }
    place.at = std::move(made);
  }
  return {};
}

Result<HeldLayer> Preparer::new_layer(const plan::Workspace& over, const LayerSource* source,
                                      const workspace::QuotaChoice& quota) {
  workspace::LayerRequest request;
  request.quota = quota;
  request.origin = over.at.path;
  if (::geteuid() == 0) {
    // What the box makes belongs to the workspace's owner, as the box's user does.
    request.upper_uid = over.at.owner;
    request.upper_gid = over.at.group;
  }
  if (source != nullptr && source->kind == LayerSource::Kind::Stack) {
    TRY(const workspace::Layer under, workspace::open_layer(*layers_, source->id));
    TRY_VOID(under.open_original());  // it is the directory that the layer is about
    request.below = under.facts().below;
    request.below.insert(request.below.begin(), source->id);
    request.base = under.base();
  } else if (source != nullptr) {
    request.fill = source->fill;
    TRY(request.base, source->make_base());
  }
  TRY(workspace::Layer layer, workspace::make_layer(*layers_, request));
  auto hold = layer.hold();
  if (!hold) {
    (void)workspace::remove_layer(*layers_, layer.facts().id);  // else the next service does
    return unexpected(std::move(hold).error());
  }
  return HeldLayer(layers_, std::move(layer), *std::move(hold), IfUnused::Remove);
}

Result<HeldLayer> Preparer::old_layer(const plan::Workspace& over, const std::string& id) {
  TRY(workspace::Layer layer, workspace::open_layer(*layers_, id));
  if (layer.facts().origin != over.at.path) {
    return fail(Code::Denied, "{}: layer {} is about {}", over.at.path, id, layer.facts().origin);
  }
  if (layer.backing() != workspace::Backing::Directory) {
    return fail(Code::Unsupported, "layer {} has a budget, and no other box can go on with it", id);
  }
  TRY_VOID(layer.open_original());
  TRY(UniqueFd hold, layer.hold());
  return HeldLayer(layers_, std::move(layer), std::move(hold), IfUnused::Leave);
}

Result<HeldLayer> Preparer::make_layer(plan::Workspace& over, const LayerSource* source,
                                       const workspace::QuotaChoice& quota) {
  const bool goes_on = source != nullptr && source->kind == LayerSource::Kind::GoOn;
  TRY(HeldLayer held, goes_on ? old_layer(over, source->id) : new_layer(over, source, quota));
  TRY_VOID(held.hold_frozen());
  TRY_VOID(workspace::plan_layer(held.layer(), over));
  return held;
}

Result<Prepared> Preparer::prepare(const BoxRequest& request, const LayerSources& layers,
                                   const std::optional<KnownPlaces>& known) {
  TRY(Draft draft, this->draft(request, known));
  TRY(const host::HostFacts host, facts());
  if (!draft.missing.empty()) {
    TRY(const plan::SandboxSpec supposed, with_some_layers(draft.spec, layers_->path));
    TRY_VOID(plan::make_plan(supposed, host));
    TRY_VOID(make_directories(draft));
  }
  Prepared prepared;
  TRY(const workspace::QuotaChoice quota, workspace::choose_for(layers_->path, draft.spec));
  for (std::size_t i = 0; i < draft.workspaces.size(); ++i) {
    plan::Workspace& place = draft.spec.workspaces.at(i);
    if (place.mode != Mode::Overlay) continue;
    const auto source = layers.find(place.at.path);
    TRY(HeldLayer layer,
        make_layer(place, source == layers.end() ? nullptr : &source->second, quota));
    draft.workspaces[i].layer_id = layer.layer().facts().id;
    draft.workspaces[i].below = layer.layer().facts().below;
    prepared.layers.push_back(std::move(layer));
  }
  TRY(prepared.plan, plan::make_plan(draft.spec, host));
  if (draft.python) {
    for (std::string& term : python_terms(*draft.python)) {
      prepared.plan.terms.push_back({std::move(term), "the Python host"});
    }
  }
  prepared.python = std::move(draft.python);
  for (const plan::Workspace& place : draft.spec.workspaces) {
    prepared.places[place.at.path] = {place.at.device, place.at.inode};
  }
  prepared.home = std::string(plan::kHomeInside);
  if (!draft.workspaces.empty()) prepared.home = draft.workspaces.front().path;
  prepared.effective = std::move(draft.asked);
  prepared.workspaces = std::move(draft.workspaces);
  prepared.origin = std::move(draft.origin);
  prepared.policies = std::move(draft.policies);
  return prepared;
}

Result<void> Preparer::check(const BoxRequest& request, const std::optional<KnownPlaces>& known) {
  TRY(const Draft draft, this->draft(request, known));
  TRY(const host::HostFacts host, facts());
  TRY(const plan::SandboxSpec supposed, with_some_layers(draft.spec, layers_->path));
  TRY_VOID(plan::make_plan(supposed, host));
  return {};
}

}  // namespace glovebox::session
