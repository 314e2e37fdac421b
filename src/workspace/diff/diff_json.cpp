#include "base/plain_text.h"
#include "workspace/diff/diff.h"
#include "workspace/tree/printable.h"

#include <boost/json.hpp>

namespace glovebox::workspace {
namespace {

namespace json = boost::json;

void put_text(json::object& out, const std::string& name, const std::string& bytes) {
  const std::string shown = printable(bytes);
  const bool is_exact = is_plain_text(bytes);
  out[name] = is_exact ? bytes : shown;
  if (!is_exact) out[name + "_hex"] = to_hex(bytes);
}

json::object encode_side(const Node& node, const std::string& target) {
  json::object out{{"type", to_text(node.type)},
                   {"mode", fmt::format("{:04o}", node.mode)},
                   {"size", node.size}};
  if (node.is(NodeType::Symlink)) put_text(out, "target", target);
  return out;
}

json::array encode_aspects(const Aspects& aspects) {
  json::array out;
  if (aspects.type) out.emplace_back("type");
  if (aspects.content) out.emplace_back("content");
  if (aspects.mode) out.emplace_back("mode");
  if (aspects.xattrs) out.emplace_back("xattrs");
  return out;
}

json::object encode_change(const Change& change) {
  json::object out;
  put_text(out, "path", change.path);
  out["kind"] = to_text(change.kind);
  if (change.kind == ChangeKind::Renamed) put_text(out, "from", change.from);
  if (change.aspects.any()) out["differs"] = encode_aspects(change.aspects);
  if (change.before.exists()) out["before"] = encode_side(change.before, change.target_before);
  if (change.after.exists()) out["after"] = encode_side(change.after, change.target_after);
  if (!change.problem.empty()) out["problem"] = change.problem;
  if (!change.conflict.empty()) out["conflict"] = change.conflict;
  return out;
}

}  // namespace

std::string diff_to_json(const std::vector<Change>& changes) {
  json::array list;
  list.reserve(changes.size());
  for (const Change& change : changes) list.emplace_back(encode_change(change));
  return json::serialize(json::object{{"version", 1}, {"changes", std::move(list)}});
}

}  // namespace glovebox::workspace
