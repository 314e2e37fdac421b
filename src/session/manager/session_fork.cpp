// Forks: several sessions that go on from where one is.
#include "async/co_try.h"
#include "async/gather.h"
#include "async/on_pool.h"
#include "host/resolve_authority.h"
#include "session/manager/operations.h"
#include "workspace/diff/diff.h"

#include <algorithm>

namespace glovebox::session {
namespace {

// Grants on the places that the session works in: a ceiling on what it may reach is not about them.
Result<authority::AuthoritySet> uses_of_places(const SessionInfo& info) {
  std::vector<authority::Capability> uses;
  const auto add = [&](const std::string& path, bool is_written) -> Result<void> {
    TRY(auto place, authority::AbsolutePath::parse(path));
    const auto use = is_written ? policy::PathUse::Write : policy::PathUse::Read;
    uses.push_back(policy::use_of_path(use, std::move(place)));
    return {};
  };
  for (const WorkspaceInfo& place : info.workspaces) {
    TRY_VOID(add(place.path, place.mode == WorkspaceMode::Write));
  }
  for (const BindRequest& bind : info.effective.binds) {
    TRY_VOID(add(bind.source, bind.mode == WorkspaceMode::Write));
  }
  return authority::AuthoritySet::granting(uses);
}

// What one child asks for.
Result<BoxRequest> child_request(const BoxRequest& asked, const SessionInfo& parent,
                                 const ForkRequest& fork, std::size_t number) {
  BoxRequest child = asked;
  const std::string& base = fork.name.empty() ? parent.effective.name : fork.name;
  child.name = base.empty() ? std::string() : fmt::format("{}-{}", base, number);
  child.handed = child.handed.unite(fork.budgets);
  child.published.clear();  // the host's ports stay the parent's
  if (fork.cpus_milli) {
    child.cpus_milli = std::min(child.cpus_milli.value_or(*fork.cpus_milli), *fork.cpus_milli);
  }
  if (!fork.ceiling) return child;
  TRY(const authority::AuthoritySet places, uses_of_places(parent));
  const authority::AuthoritySet cut = fork.ceiling->unite(places);
  child.ceiling = child.ceiling ? child.ceiling->attenuate(cut) : cut;
  return child;
}

// Whether a box wrote anything into the layer itself.
Result<bool> is_untouched(const workspace::Layer& layer) {
  TRY(const UniqueFd upper, layer.open_upper());
  TRY(const auto entries, workspace::list_directory(upper));
  if (!entries.empty()) return false;
  TRY(const workspace::Node root, workspace::look(upper));
  TRY(const UniqueFd original, layer.open_original());
  TRY(const workspace::Node before, workspace::look(original));
  return root.mode == (before.mode & 01777U);
}

// Where the parent's layers come from: those that are frozen get another on top, and the others are
// its own still.
LayerSources own_sources(const SessionInfo& info, const LayerSources& children) {
  LayerSources sources;
  for (const WorkspaceInfo& place : info.workspaces) {
    if (place.layer_id.empty()) continue;
    const auto found = children.find(place.path);
    const bool is_frozen = found != children.end() && found->second.id == place.layer_id;
    LayerSource source;
    source.kind = is_frozen ? LayerSource::Kind::Stack : LayerSource::Kind::GoOn;
    source.id = place.layer_id;
    sources.emplace(place.path, std::move(source));
  }
  return sources;
}

// Where each child's layers come from. A layer that was not written to yet is left to the parent,
// and the children stand on what that stands on; one that was written to is frozen, and then the
// parent must go on over it as they do.
asio::awaitable<Result<LayerSources>> freeze(ManagerParts& parts, EntryPointer entry,
                                             bool& must_renew) {
  struct Found {
    LayerSources sources;
    bool is_written = false;
  };
  const auto work = [preparer = parts.common.preparer,
                     places = entry->record.info.workspaces]() -> Result<Found> {
    Found found;
    for (const WorkspaceInfo& place : places) {
      if (place.layer_id.empty()) continue;
      TRY(const workspace::Layer layer, workspace::open_layer(preparer->layers(), place.layer_id));
      if (place.below.size() >= plan::kMaxFrozen) {
        return fail(
            Code::Exhausted,
            "{}: {} layers on one another, and there can be no more; write a checkpoint and "
            "restore it, which makes one of them",
            place.path, place.below.size());
      }
      TRY(const bool is_same, is_untouched(layer));
      found.is_written = found.is_written || !is_same;
      LayerSource source;
      source.kind = LayerSource::Kind::Stack;
      source.id = place.layer_id;
      if (is_same && place.below.empty()) continue;  // as new
      if (is_same) source.id = place.below.front();
      found.sources.emplace(place.path, std::move(source));
    }
    return found;
  };
  CO_TRY(Found found, co_await on_pool(parts.common.pool, work));
  must_renew = found.is_written;
  co_return std::move(found.sources);
}

// No child has what its parent has lost meanwhile. What it is called and how long it may be idle is
// as it was when the fork was asked for.
Result<void> check_same(const SessionRegistry& registry, const SessionEntry& parent,
                        const BoxRequest& before) {
  TRY_VOID(registry.check_wanted(parent));
  TRY(BoxRequest now, asked_of(parent, {}));
  now.name = before.name;
  now.labels = before.labels;
  now.idle_timeout = before.idle_timeout;
  if (now == before) return {};
  return fail(Code::Exhausted, "the session was changed while it was forked; try again");
}

// What fails is tried again by the sweep.
asio::awaitable<void> remove_child(ManagerParts& parts, std::string id) {
  const EntryPointer child = parts.registry.find_or_null(id);
  if (!child) co_return;
  (void)co_await remove_session(parts, child, LayerFate::Remove, EndCause::Deleted,
                                "the session was deleted");
}

asio::awaitable<Result<std::vector<SessionInfo>>> make_children(ManagerParts& parts,
                                                                EntryPointer entry,
                                                                const ForkRequest& request,
                                                                BoxRequest asked,
                                                                SessionOrigin origin) {
  std::vector<asio::awaitable<Result<SessionInfo>>> works;
  for (std::size_t i = 1; i <= request.count; ++i) {
    CO_TRY(BoxRequest child, child_request(asked, entry->record.info, request, i));
    works.push_back(create_session(parts, std::move(child), origin));
  }
  std::vector<Result<SessionInfo>> made = co_await together(parts.common.loop, std::move(works));
  const auto failed = std::ranges::find_if(made, [](const auto& one) { return !one; });
  const auto done = failed == made.end() ? origin.recheck() : unexpected(failed->error());
  std::vector<SessionInfo> children;
  for (Result<SessionInfo>& one : made) {
    if (!one) continue;
    if (done) {
      children.push_back(*std::move(one));
    } else {
      co_await remove_child(parts, one->id);
    }
  }
  if (!done) co_return unexpected(done.error());
  co_return children;
}

}  // namespace

Result<void> check_fork(const ForkRequest& request) {
  if (request.count == 0 || request.count > kMaxForks) {
    return fail(Code::Invalid, "a fork makes 1 to {} sessions", kMaxForks);
  }
  if (!request.budgets.grants_nothing()) {
    return fail(Code::Invalid, "a fork hands in budgets alone: it only narrows");
  }
  return {};
}

asio::awaitable<Result<std::vector<SessionInfo>>> fork_session(ManagerParts& parts,
                                                               EntryPointer entry,
                                                               ForkRequest request) {
  CO_TRY_VOID(parts.registry.check_room(request.count));
  CO_TRY(const Turns turns, co_await take_turns(parts, entry, WhenBusy::Wait));
  const std::vector<plan::EnvEntry> none;
  CO_TRY(Snapshot snapshot, co_await take_snapshot(parts, entry, none));
  bool must_renew = false;
  SessionOrigin origin;
  CO_TRY(origin.layers, co_await freeze(parts, entry, must_renew));
  origin.shell = std::move(snapshot.shell);
  if (request.ceiling) {
    const auto work = [ceiling = *request.ceiling] { return host::resolve_paths(ceiling); };
    CO_TRY(host::ResolvedAuthority resolved, co_await on_pool(parts.common.pool, work));
    request.ceiling = std::move(resolved.set);
  }
  CO_TRY(BoxRequest asked, co_await asked_again(parts, entry, none, request.review));
  CO_TRY(BoxRequest before, asked_of(*entry, none));
  // One that has died on the way stays dead.
  if (must_renew && entry->live && entry->live->is_alive()) {
    const std::size_t busy = under_way(*entry);
    if (busy > 0 && request.running == WhileRunning::Refuse) {
      co_return fail(
          Code::Exhausted,
          "{} runs or file jobs of the session are under way, and would end with its box", busy);
    }
    SessionOrigin own = origin;
    own.layers = own_sources(entry->record.info, origin.layers);
    CO_TRY_VOID(co_await renew_session(parts, entry, asked, std::move(own)));
    before = asked;
  }
  origin.parent = entry->record.info.id;
  origin.known = entry->places;
  origin.recheck = [&registry = parts.registry, entry, before = std::move(before)] {
    return check_same(registry, *entry, before);
  };
  if (snapshot.policy) origin.policy_digest = snapshot.policy->digest;
  CO_TRY(std::vector<SessionInfo> children,
         co_await make_children(parts, entry, request, std::move(asked), std::move(origin)));
  parts.registry.tell(EventKind::Forked, *entry, fmt::format("{} children", children.size()));
  co_return children;
}

}  // namespace glovebox::session
