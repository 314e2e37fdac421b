#include "workspace/diff/change.h"

#include "workspace/tree/printable.h"

#include <algorithm>

namespace glovebox::workspace {
namespace {

std::string to_text(const Aspects& aspects) {
  std::string out;
  const auto add = [&](bool is_set, std::string_view name) {
    if (!is_set) return;
    if (!out.empty()) out += ", ";
    out += name;
  };
  add(aspects.type, "type");
  add(aspects.content, "content");
  add(aspects.mode, "mode");
  add(aspects.xattrs, "attributes");
  return out;
}

}  // namespace

std::string_view to_text(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::Deleted: return "deleted";
    case ChangeKind::Added: return "added";
    case ChangeKind::Modified: return "modified";
    case ChangeKind::Renamed: return "renamed";
    case ChangeKind::Refused: return "refused";
  }
  return "unknown";
}

void sort_changes(std::vector<Change>& changes) {
  const auto comes_before = [](const Change& a, const Change& b) {
    if (a.path != b.path) return tree_order(a.path, b.path);
    return a.kind < b.kind;
  };
  // A walk gives them nearly in order, and they are large to move.
  if (std::is_sorted(changes.begin(), changes.end(), comes_before)) return;
  std::sort(changes.begin(), changes.end(), comes_before);
}

std::string to_text(const Change& change) {
  std::string out = fmt::format("{} {}", to_text(change.kind), printable(change.path));
  if (change.kind == ChangeKind::Renamed) out += fmt::format(" from {}", printable(change.from));
  if (change.kind == ChangeKind::Refused) out += fmt::format(" ({})", change.problem);
  if (change.kind == ChangeKind::Modified) out += fmt::format(" ({})", to_text(change.aspects));
  return out;
}

}  // namespace glovebox::workspace
