#include "cli/layer_search.h"

#include "base/file.h"
#include "cli/last_run.h"
#include "cli/layers.h"
#include "host/path_facts.h"
#include "workspace/layer/layer_json.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fcntl.h>
#include <sys/file.h>

namespace glovebox::app {
namespace {

enum class Whose : std::uint8_t { Runs, Sessions };

// One directory of layers.
struct Place {
  workspace::LayerRoot root;
  Whose whose = Whose::Runs;
  UniqueFd no_service;  // Sessions: no service has the directory, nor takes it while this lives
};

Result<Place> open_sessions_place(const std::string& state) {
  Place place{.root = {}, .whose = Whose::Sessions, .no_service = {}};
  TRY(place.root, workspace::open_layer_root(state + "/layers"));
  TRY(UniqueFd lock, open_file(state + "/lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (::flock(lock.get(), LOCK_SH | LOCK_NB) == 0) place.no_service = std::move(lock);
  return place;
}

Result<std::vector<Place>> open_places() {
  TRY(const std::string state, state_directory());
  std::vector<Place> places;
  if (is_state_of_service(state)) {
    TRY(Place place, open_sessions_place(state));
    places.push_back(std::move(place));
  } else {
    TRY(workspace::LayerRoot root, open_layers());
    places.push_back({std::move(root), Whose::Runs, {}});
  }
  if (is_state_of_service(state + "/serve")) {
    TRY(Place place, open_sessions_place(state + "/serve"));
    places.push_back(std::move(place));
  }
  return places;
}

// Those of a place that can be named.
Result<std::vector<ListedLayer>> list_place(const Place& place) {
  TRY(std::vector<workspace::LayerFacts> layers, workspace::list_layers(place.root));
  std::set<std::string, std::less<>> frozen;
  for (const auto& facts : layers) frozen.insert(facts.below.begin(), facts.below.end());
  std::vector<ListedLayer> found;
  for (workspace::LayerFacts& facts : layers) {
    if (frozen.contains(facts.id)) continue;  // a part of those that stand on it
    ListedLayer listed{std::move(facts), std::nullopt};
    if (place.whose == Whose::Sessions) {
      const auto layer = workspace::open_layer(place.root, listed.facts.id);
      if (!layer) continue;  // removed meanwhile
      // A mark that cannot be read is a mark.
      listed.kept =
          workspace::read_kept(*layer).value_or(workspace::Kept{.at = listed.facts.created});
      if (!listed.kept && !place.no_service) continue;
    }
    found.push_back(std::move(listed));
  }
  return found;
}

Result<FoundLayer> open_in(Place& place, const std::string& id) {
  TRY(workspace::Layer layer, workspace::open_layer(place.root, id));
  TRY(UniqueFd hold, layer.hold());
  FoundLayer found{std::move(place.root), std::move(layer), std::move(hold), UniqueFd()};
  if (place.whose == Whose::Runs) return found;
  TRY(const auto kept, workspace::read_kept(found.layer));
  if (kept) return found;
  if (!place.no_service) {
    return fail(Code::Denied,
                "layer {} belongs to a session that is there: use 'glovebox session diff' and "
                "'glovebox session commit'",
                id);
  }
  found.no_service = std::move(place.no_service);
  return found;
}

Result<FoundLayer> open_by_id(const std::string& id) {
  if (!workspace::is_layer_id(id)) {
    return fail(Code::Invalid, "'{}' is not the id of a layer ('glovebox layers' lists them)",
                workspace::printable(id));
  }
  TRY(std::vector<Place> places, open_places());
  for (Place& place : places) {
    auto found = open_in(place, id);
    if (found || found.error().code != Code::NotFound) return found;
  }
  return fail(Code::NotFound, "there is no layer {}", id);
}

std::int64_t left_at(const ListedLayer& layer) {
  return layer.kept ? layer.kept->at : layer.facts.created;
}

// What a session left behind last in a workspace at or above a directory.
Result<std::optional<ListedLayer>> find_left_behind(const std::string& directory) {
  TRY(const std::vector<Place> places, open_places());
  std::optional<ListedLayer> newest;
  for (const Place& place : places) {
    if (place.whose != Whose::Sessions) continue;
    TRY(const std::vector<ListedLayer> layers, list_place(place));
    for (const ListedLayer& layer : layers) {
      if (!host::is_within(directory, layer.facts.origin)) continue;
      if (!newest || left_at(layer) > left_at(*newest)) newest = layer;
    }
  }
  return newest;
}

Result<std::string> last_layer() {
  TRY(const std::string here, current_directory());
  const auto run = find_last_run(here);
  TRY(const auto left, find_left_behind(here));
  if (left && (!run || left_at(*left) > run->at)) return left->facts.id;
  if (!run) return unexpected(run.error());
  if (run->outcome == LastRun::Outcome::HasLayer) return run->layer;
  const bool is_refused = run->outcome == LastRun::Outcome::Refused;
  return fail(Code::NotFound,
              "there is no last layer here: the last run {} ({}). Name an older layer by its id "
              "('glovebox layers' lists them)",
              is_refused ? "was refused" : "changed nothing", to_text(*run));
}

// One that is gone was removed, or was too old or one too many.
Result<FoundLayer> open_remembered(const std::string& id) {
  auto found = open_by_id(id);
  if (found || found.error().code != Code::NotFound) return found;
  return fail(Code::NotFound, "the last layer here, {}, is there no more ('glovebox layers')", id);
}

}  // namespace

Result<FoundLayer> find_layer(const std::string& named) {
  if (named != "last") return open_by_id(named);
  TRY(const std::string id, last_layer());
  return open_remembered(id);
}

Result<FoundLayer> find_committed_layer() {
  TRY(const std::string here, current_directory());
  TRY(const LastRun run, find_last_commit(here));
  return open_remembered(run.committed);
}

Result<std::vector<ListedLayer>> list_all_layers() {
  TRY(const std::vector<Place> places, open_places());
  std::vector<ListedLayer> all;
  for (const Place& place : places) {
    TRY(std::vector<ListedLayer> some, list_place(place));
    std::ranges::move(some, std::back_inserter(all));
  }
  std::ranges::sort(all, [](const ListedLayer& a, const ListedLayer& b) {
    return std::tie(b.facts.created, b.facts.id) < std::tie(a.facts.created, a.facts.id);
  });
  return all;
}

Result<workspace::LayerFacts> remove_named_layer(const std::string& id) {
  TRY(FoundLayer found, find_layer(id));
  found.hold.reset();  // a layer that is held is not removed
  workspace::LayerFacts facts = found.layer.facts();
  TRY_VOID(workspace::remove_layer(found.root, facts.id));
  return facts;
}

}  // namespace glovebox::app
