#include "base/file.h"
#include "workspace/layer/journal.h"
#include "workspace/layer/kept.h"
#include "workspace/layer/layer.h"
#include "workspace/layer/layer_json.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <map>

#include <fcntl.h>
#include <sys/file.h>

namespace glovebox::workspace {
namespace {

constexpr std::string_view kDraft = ".new-";
constexpr std::string_view kRemoving = ".removing-";
constexpr std::int64_t kSecond = 1'000'000'000;
// A layer that is being made is whole within milliseconds.
constexpr std::int64_t kDraftLife = 3600 * kSecond;

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

std::string marked_name(std::string_view id) { return fmt::format("{}{}", kRemoving, id); }

Result<std::vector<Entry>> list_root(const LayerRoot& root) {
  TRY(const UniqueFd dir, open_directory(root.dir, "."));
  return list_directory(dir);
}

// Whether no process holds the layer and no commit of it waits for recovery.
Result<void> check_removable(const Layer& layer) {
  TRY(const UniqueFd fd, open_file_at(layer.dir(), "layer.json", O_RDONLY | O_NOFOLLOW));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::Denied, "layer {} is in use", layer.facts().id);
  }
  TRY(const bool is_unfinished, has_unfinished_commit(layer));
  if (is_unfinished) {
    return fail(Code::Denied, "layer {} has an unfinished commit: recover it first",
                layer.facts().id);
  }
  return {};
}

// A layer whose facts were lost in a crash right after it was made.
Result<bool> is_without_facts(const LayerRoot& root, const std::string& name) {
  if (!is_layer_id(name)) return false;
  TRY(const Node facts, look(root.dir, name + "/layer.json"));
  return !facts.exists() || facts.size == 0;
}

Result<void> remove_leftover(const LayerRoot& root, const std::string& name) {
  if (name.starts_with(kRemoving)) return remove_tree(root.dir, name);
  TRY(const bool is_broken, is_without_facts(root, name));
  if (!is_broken && !name.starts_with(kDraft)) return {};
  TRY(const Node node, look(root.dir, name));
  // One of the future was made before the clock was set back.
  if (std::abs(now() - node.changed) < kDraftLife) return {};
  return remove_tree(root.dir, name);
}

// Whether a layer is older than that by the clock that counts since the machine started. One of a
// former start may be anything: nothing tells.
Result<bool> may_be_older(const LayerRoot& root, const LayerFacts& facts,
                          std::chrono::seconds age) {
  const auto layer = open_layer(root, facts.id);
  if (!layer) return true;  // what it began with was lost
  TRY(const StartStamp present, read_start_stamp());
  const StartStamp& begin = layer->base().stamp;
  if (begin.boot_id != present.boot_id) return true;
  const std::int64_t began_at = begin.start - begin.clock_minus_boot;
  const std::int64_t is_now = present.start - present.clock_minus_boot;
  return is_now - began_at > age.count() * kSecond;
}

}  // namespace

Result<std::int64_t> newest_layer_time(const LayerRoot& root) {
  TRY(const auto entries, list_root(root));
  std::string_view newest;
  for (const Entry& entry : entries) {
    if (is_layer_id(entry.name)) newest = std::max(newest, std::string_view(entry.name));
  }
  if (newest.empty()) return 0;
  const auto text = read_file_at(root.dir, fmt::format("{}/layer.json", newest));
  if (!text) return 0;  // lost in a crash
  const auto facts = decode_facts(*text);
  return facts ? facts->created : 0;
}

Result<std::vector<LayerFacts>> list_layers(const LayerRoot& root) {
  TRY(const auto entries, list_root(root));
  std::vector<LayerFacts> found;
  for (const Entry& entry : entries) {
    if (!is_layer_id(entry.name)) continue;
    const auto text = read_file_at(root.dir, entry.name + "/layer.json");
    if (!text) continue;  // lost in a crash: collected after an hour
    auto facts = decode_facts(*text);
    if (facts && facts->id == entry.name) found.push_back(*std::move(facts));
  }
  std::sort(found.begin(), found.end(), [](const LayerFacts& a, const LayerFacts& b) {
    return std::tie(b.created, b.id) < std::tie(a.created, a.id);
  });
  return found;
}

Result<std::string> mark_removed(const LayerRoot& root, std::string_view id) {
  if (is_layer_id(id)) {
    // Begun before, and stopped by an error: there is nothing left to ask about it.
    TRY(const Node node, look(root.dir, marked_name(id)));
    if (node.exists()) return std::string(id);
  }
  TRY(const Layer layer, open_layer(root, id));
  TRY_VOID(check_removable(layer));
  const std::string& name = layer.facts().id;
  TRY_VOID(move_new(root.dir, name, root.dir, marked_name(name)));
  return name;
}

Result<void> remove_marked(const LayerRoot& root, std::string_view id) {
  if (!is_layer_id(id)) return fail(Code::Invalid, "not the id of a layer");
  return remove_tree(root.dir, marked_name(id));
}

Result<void> remove_layer(const LayerRoot& root, std::string_view id) {
  TRY(const std::string marked, mark_removed(root, id));
  return remove_marked(root, marked);
}

Result<std::vector<std::string>> expired_kept(const LayerRoot& root, const Retention& keep) {
  TRY(const auto layers, list_layers(root));
  std::vector<std::pair<Kept, LayerFacts>> marked;
  for (const LayerFacts& facts : layers) {
    const auto layer = open_layer(root, facts.id);
    if (!layer) continue;  // removed meanwhile
    // A mark that cannot be read is a mark.
    const auto kept = read_kept(*layer).value_or(Kept{.at = facts.created});
    if (kept) marked.emplace_back(*kept, facts);
  }
  // What was left last, not what was begun last: a session may have lived for weeks.
  std::ranges::stable_sort(marked, std::greater<>(), [](const auto& one) { return one.first.at; });
  std::map<std::string, std::size_t> count_of;  // by owner
  std::vector<std::string> expired;
  const std::int64_t oldest = now() - keep.max_age.count() * kSecond;
  for (const auto& [kept, facts] : marked) {
    bool is_expired = ++count_of[kept.owner] > keep.max_count;
    if (!is_expired && kept.at < oldest) {
      TRY(is_expired, may_be_older(root, facts, keep.max_age));
    }
    if (is_expired) expired.push_back(facts.id);
  }
  std::ranges::reverse(expired);
  return expired;
}

Result<std::vector<std::string>> collect_layers(const LayerRoot& root, const Retention& keep) {
  TRY(const auto entries, list_root(root));
  for (const Entry& entry : entries) TRY_VOID(remove_leftover(root, entry.name));
  TRY(const auto layers, list_layers(root));
  std::vector<std::string> removed;
  const std::int64_t oldest = now() - keep.max_age.count() * kSecond;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    bool is_expired = i >= keep.max_count;
    if (!is_expired && layers[i].created < oldest) {
      TRY(is_expired, may_be_older(root, layers[i], keep.max_age));
    }
    if (!is_expired) continue;
    const auto done = remove_layer(root, layers[i].id);
    if (done) removed.push_back(layers[i].id);
    if (!done && done.error().code != Code::Denied) return unexpected(done.error());
  }
  return removed;
}

}  // namespace glovebox::workspace
