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

#include <algorithm>
#include <cstdlib>

#include <unistd.h>

namespace glovebox::session {

using authority::Effect;
using authority::Rule;

namespace {

Result<authority::Capability> use_of(const plan::Workspace& place) {
  TRY(const auto path, authority::AbsolutePath::parse(place.at.path));
  const bool is_written = place.mode == WorkspaceMode::Write;
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

// A budget that bounds the caller is not the caller's to give up.
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

// A published port listens on the host, which no ceiling grants: its `listen` is about the box.
Result<void> check_published(const BoxRequest& request) {
  if (!request.ceiling) return {};
  if (!request.published.empty()) {
    return fail(Code::Denied, "publish {}: not within what you may hand in",
                plan::to_text(request.published.front()));
  }
  // With name servers of its own choice a caller could make a granted name mean any address.
  if (request.resolver.empty()) return {};
  return fail(Code::Denied, "resolver {}: what you may hand in is bounded by names",
              request.resolver);
}

// Handing a place in is a grant like another: within the ceiling.
Result<void> check_ceiling(const BoxRequest& request, const plan::Workspace& place) {
  if (!request.ceiling) return {};
  TRY(const authority::Capability use, use_of(place));
  if (request.ceiling->decide(use).effect == Effect::Allow) return {};
  return fail(Code::Denied, "{}: not within what you may hand in", place.at.path);
}

// The bound is the policy's and the caller's, whichever is less.
Result<void> check_mode(WorkspaceMode mode, std::optional<WorkspaceMode> of_policy,
                        WorkspaceMode of_caller, const std::string& path) {
  if (of_policy && mode > *of_policy) {
    return fail(Code::Denied, "{}: the policy allows no more than {}", path, to_text(*of_policy));
  }
  if (mode <= of_caller) return {};
  return fail(Code::Denied, "{}: you may hand in no more than {}", path, to_text(of_caller));
}

// What needs no host and no policy.
plan::SandboxSpec start_spec(const BoxRequest& request) {
  plan::SandboxSpec spec;
  spec.resident = request.command.empty() ? plan::Resident::Agent : plan::Resident::Command;
  spec.command = request.command;
  spec.backend = request.backend.value_or(Backend::Process);
  spec.cpus_milli = request.cpus_milli;
  spec.uid = request.uid;
  spec.gid = request.gid;
  spec.hostname = request.hostname;
  spec.loopback = request.loopback;
  spec.published = request.published;
  spec.resolver = request.resolver;
  spec.terminal = request.terminal;
  spec.waived = request.waived;
  if (request.lang) spec.lang = *request.lang;
  if (request.term) spec.term = *request.term;
  return spec;
}

// What the Python host keeps is in the plan's terms too, so that the report has it.
Result<plan::LaunchPlan> make_plan(const plan::SandboxSpec& spec,
                                   const std::optional<PythonPlan>& python,
                                   const host::HostFacts& host) {
  TRY(plan::LaunchPlan plan, plan::make_plan(spec, host));
  if (!python) return plan;
  for (std::string& term : python_terms(*python)) {
    plan.terms.push_back({std::move(term), "the Python host"});
  }
  return plan;
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

}  // namespace

Result<std::unique_ptr<Preparer>> Preparer::open(PreparerSettings settings) {
  std::unique_ptr<Preparer> preparer(new Preparer(std::move(settings)));
  PreparerSettings& own = preparer->settings_;
  TRY_VOID(preparer->hidden_.open(own.hidden, own.around));
  for (std::string* path : {&own.secrets, &own.python_extension}) {
    if (path->empty()) continue;
    TRY(*path, host::resolve_new_path(*path));
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
  spec = start_spec(request);
  TRY_VOID(apply_policy(draft));
  TRY_VOID(check_waived(spec.waived, request));
  TRY_VOID(check_published(request));
  TRY_VOID(add_authority(draft));
  if (known) {
    TRY_VOID(check_known_rules(request.handed, spec));
    if (draft.asked.ceiling != request.ceiling) {
      return fail(Code::Denied, "a path of the session's ceiling leads elsewhere than it did");
    }
  }
  TRY_VOID(add_caller_env(draft));
  TRY_VOID(add_places(draft));
  // The extension is what a box with a Python host may see of ours.
  const std::string extension = request.python ? settings_.python_extension : std::string();
  TRY_VOID(hidden_.hide(spec, draft.asked.handed, extension));
  TRY_VOID(add_secrets(draft));
  // After what is hidden and what is secret: the Python host keeps rules and secrets of its own.
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
// goes beyond the ceiling.
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
  return {};
}

// Variables that the authority names without a value, as this process has them.
Result<void> Preparer::add_caller_env(Draft& draft) const {
  if (settings_.env_source == EnvSource::Request) return {};
  for (const Rule& rule : draft.spec.authority.rules()) {
    const auto* env = std::get_if<authority::Env>(&rule.capability);
    if (env == nullptr || env->value || rule.effect != Effect::Allow) continue;
    const char* value = std::getenv(env->name.text().c_str());
    if (value != nullptr) draft.spec.caller_env.push_back({env->name.text(), value});
  }
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
  draft.spec.cwd = draft.asked.cwd;
  if (!draft.spec.cwd) {
    draft.spec.cwd =
        draft.workspaces.empty() ? std::string(plan::kHomeInside) : draft.workspaces.front().path;
  }
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
    TRY_VOID(check_ceiling(draft.asked, place));
    TRY_VOID(check_interpreter_place(place.at.path));
    TRY_VOID(check_known_interpreter(draft.known, place.at));
  }
  TRY_VOID(hidden_.check_workspaces(draft.spec));
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
  const auto most = draft.asked.most_workspace.value_or(WorkspaceMode::Write);
  const auto usual = std::min(draft.policy_mode.value_or(WorkspaceMode::Overlay), most);
  asked.mode = asked.mode.value_or(usual);
  TRY_VOID(check_mode(*asked.mode, draft.policy_mode, most, asked.path));
  plan::Workspace place;
  place.mode = *asked.mode;
  auto found = host::look_up(asked.path);
  if (found) {
    place.at = *std::move(found);
    TRY_VOID(check_known(draft.known, asked.path, place.at));
    if (place.at.kind != host::PathKind::Directory) {
      return fail(Code::Invalid, "workspace {}: not a directory", asked.path);
    }
  } else if (found.error().code == Code::NotFound && asked.if_missing == IfMissing::Make) {
    TRY(std::string path, host::resolve_new_path(asked.path));
    TRY_VOID(check_known_missing(draft.known, asked.path, path));
    place.at = not_made_yet(std::move(path));
    draft.missing.push_back(draft.spec.workspaces.size());
  } else {
    return unexpected(std::move(found).error());
  }
  TRY_VOID(check_ceiling(draft.asked, place));
  asked.path = place.at.path;
  draft.workspaces.push_back({place.at.path, place.mode});
  draft.spec.workspaces.push_back(std::move(place));
  return {};
}

// The program that tries the box's walls. It is the service's own choice, so no bound of the
// caller's concerns it.
Result<void> Preparer::add_probe(Draft& draft) {
  auto found = host::look_up(settings_.probe);
  if (!found) return fail(Code::Unsupported, "prove: {}", found.error().message);
  plan::Workspace place;
  place.mode = WorkspaceMode::Read;
  place.at = *std::move(found);
  place.inside = kProbeInside;
  draft.spec.workspaces.push_back(std::move(place));
  return {};
}

Result<void> Preparer::add_bind(Draft& draft, BindRequest& asked) {
  const auto most = draft.asked.most_workspace.value_or(WorkspaceMode::Write);
  TRY_VOID(check_mode(asked.mode, draft.policy_mode, most, asked.source));
  plan::Workspace place;
  place.mode = asked.mode;
  auto found = host::look_up(asked.source);
  if (!found) return fail(found.error().code, "bind {}", found.error().message);
  place.at = *std::move(found);
  TRY_VOID(check_known(draft.known, asked.source, place.at));
  if (asked.dest.empty()) asked.dest = place.at.path;
  if (asked.dest != place.at.path) place.inside = asked.dest;
  TRY_VOID(check_ceiling(draft.asked, place));
  asked.source = place.at.path;
  draft.spec.workspaces.push_back(std::move(place));
  return {};
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

Result<Prepared> Preparer::prepare(const BoxRequest& request, const LayerSources& layers,
                                   const std::optional<KnownPlaces>& known) {
  TRY(Draft draft, this->draft(request, known));
  TRY(const host::HostFacts host, facts());
  if (!draft.missing.empty()) {
    TRY(const plan::SandboxSpec supposed, with_some_layers(draft.spec));
    TRY_VOID(plan::make_plan(supposed, host));
    TRY_VOID(make_directories(draft));
  }
  Prepared prepared;
  TRY(prepared.layers, make_layers(draft, layers));
  TRY(prepared.plan, make_plan(draft.spec, draft.python, host));
  prepared.python = std::move(draft.python);
  for (const plan::Workspace& place : draft.spec.workspaces) {
    prepared.places[place.at.path] = {place.at.device, place.at.inode};
  }
  prepared.home = *draft.spec.cwd;
  prepared.effective = std::move(draft.asked);
  prepared.workspaces = std::move(draft.workspaces);
  prepared.origin = std::move(draft.origin);
  prepared.policies = std::move(draft.policies);
  return prepared;
}

Result<plan::LaunchPlan> Preparer::explain(const BoxRequest& request,
                                           const std::optional<KnownPlaces>& known) {
  TRY(const Draft draft, this->draft(request, known));
  TRY(const host::HostFacts host, facts());
  TRY(const plan::SandboxSpec supposed, with_some_layers(draft.spec));
  return make_plan(supposed, draft.python, host);
}

}  // namespace glovebox::session
