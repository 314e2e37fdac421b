#include "workspace/layer/kept.h"

#include "base/file.h"
#include "base/strict_json.h"
#include "workspace/tree/printable.h"
#include "workspace/tree/private_files.h"

#include <boost/json.hpp>

#include <cerrno>

namespace glovebox::workspace {
namespace {

namespace json = boost::json;

constexpr const char* kKept = "kept.json";

}  // namespace

Result<void> mark_kept(const Layer& layer, const Kept& kept) {
  const json::object object{{"version", 1},
                            {"session", encode_bytes(kept.session)},
                            {"owner", encode_bytes(kept.owner)},
                            {"at", static_cast<std::uint64_t>(kept.at)},
                            {"changes", kept.changes}};
  return write_record(layer.dir(), kKept, json::serialize(object), Durability::Synced);
}

Result<std::optional<Kept>> read_kept(const Layer& layer) {
  const auto text = read_file_at(layer.dir(), kKept);
  if (!text && text.error().os_errno == ENOENT) return std::optional<Kept>();
  if (!text) return unexpected(text.error());
  TRY(const json::value value, parse_strict_json(*text));
  TRY(JsonFields fields, JsonFields::of(value, kKept));
  TRY(const std::uint64_t version, fields.integer("version"));
  if (version != 1) return fail(Code::Unsupported, "{}: unknown version", kKept);
  Kept kept;
  TRY(const std::string_view session, fields.text("session"));
  TRY(kept.session, decode_bytes(session));
  TRY(const std::string_view owner, fields.text("owner"));
  TRY(kept.owner, decode_bytes(owner));
  TRY(const std::uint64_t at, fields.integer("at"));
  kept.at = static_cast<std::int64_t>(at);
  TRY(kept.changes, fields.integer("changes"));
  TRY_VOID(fields.finish());
  return std::optional(std::move(kept));
}

}  // namespace glovebox::workspace
