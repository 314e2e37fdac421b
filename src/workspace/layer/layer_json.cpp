#include "workspace/layer/layer_json.h"

#include "base/strict_json.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <charconv>

namespace glovebox::workspace {
namespace {

namespace json = boost::json;

constexpr std::size_t kLargestRecord = std::size_t{256} << 20;
constexpr std::size_t kLongestId = 64;

// Times and inodes are 64 bits wide and may be negative or large: decimal text, not a JSON number.
Result<std::int64_t> parse_signed(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(Code::Invalid, "not a number");
  }
  return value;
}

Result<std::int64_t> signed_field(JsonFields& fields, std::string_view name) {
  TRY(const std::string_view text, fields.text(name));
  return parse_signed(text);
}

Result<MarkPrefix> decode_prefix(std::string_view text) {
  if (text == to_text(MarkPrefix::User)) return MarkPrefix::User;
  if (text == to_text(MarkPrefix::Trusted)) return MarkPrefix::Trusted;
  return fail(Code::Invalid, "an unknown kind of overlay mark");
}

Result<KnownNodes> decode_known(const json::array& array) {
  KnownNodes known;
  known.reserve(array.size());
  for (const json::value& item : array) {
    TRY(const std::string_view line, json_text(item, "known"));
    const std::size_t first = line.find(' ');
    const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
    if (second == std::string_view::npos) return fail(Code::Invalid, "a broken line in known");
    TRY(const std::int64_t inode, parse_signed(line.substr(0, first)));
    TRY(const std::int64_t changed, parse_signed(line.substr(first + 1, second - first - 1)));
    TRY(std::string path, decode_bytes(line.substr(second + 1)));
    known.emplace(std::move(path),
                  Known{.inode = static_cast<std::uint64_t>(inode), .changed = changed});
  }
  return known;
}

}  // namespace

bool is_layer_id(std::string_view id) {
  return !id.empty() && id.size() <= kLongestId && id[0] != '-' &&
         std::all_of(id.begin(), id.end(), [](char byte) {
           return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') || byte == '-';
         });
}

std::string encode_facts(const LayerFacts& facts) {
  json::object object({{"version", 1},
                       {"id", facts.id},
                       {"origin", encode_bytes(facts.origin)},
                       {"created", fmt::format("{}", facts.created)},
                       {"mode", "overlay"},
                       {"marks", to_text(facts.prefix)},
                       {"uid", facts.uid},
                       {"upper_uid", facts.upper_uid},
                       {"upper_gid", facts.upper_gid}});
  // Without any it is as programs that know of none write it.
  if (!facts.below.empty()) object["below"] = json::array(facts.below.begin(), facts.below.end());
  return json::serialize(object);
}

Result<std::vector<std::string>> decode_below(const json::value& value) {
  if (!value.is_array()) return fail(Code::Invalid, "layer.json: below is no list");
  std::vector<std::string> ids;
  for (const json::value& item : value.get_array()) {
    TRY(const std::string_view id, json_text(item, "below"));
    if (!is_layer_id(id)) return fail(Code::Invalid, "layer.json: not the id of a layer");
    ids.emplace_back(id);
  }
  return ids;
}

Result<LayerFacts> decode_facts(std::string_view text) {
  TRY(const json::value value, parse_strict_json(text));
  TRY(JsonFields fields, JsonFields::of(value, "layer.json"));
  LayerFacts facts;
  TRY(const std::uint64_t version, fields.integer("version"));
  TRY(const std::string_view mode, fields.text("mode"));
  if (version != 1 || mode != "overlay") return fail(Code::Unsupported, "layer.json: unknown kind");
  TRY(facts.id, fields.text("id"));
  TRY(const std::string_view origin, fields.text("origin"));
  TRY(facts.origin, decode_bytes(origin));
  TRY(facts.created, signed_field(fields, "created"));
  TRY(const std::string_view marks, fields.text("marks"));
  TRY(facts.prefix, decode_prefix(marks));
  TRY(const std::uint64_t uid, fields.integer("uid"));
  TRY(const std::uint64_t upper_uid, fields.integer("upper_uid"));
  TRY(const std::uint64_t upper_gid, fields.integer("upper_gid"));
  facts.uid = static_cast<uid_t>(uid);
  facts.upper_uid = static_cast<uid_t>(upper_uid);
  facts.upper_gid = static_cast<gid_t>(upper_gid);
  if (const json::value* below = fields.find("below")) {
    TRY(facts.below, decode_below(*below));
  }
  TRY_VOID(fields.finish());
  return facts;
}

std::string encode_base(const Base& base) {
  json::array known;
  known.reserve(base.known.size());
  for (const auto& [path, node] : base.known) {
    known.emplace_back(fmt::format("{} {} {}", static_cast<std::int64_t>(node.inode), node.changed,
                                   encode_bytes(path)));
  }
  return json::serialize(
      json::object{{"start", fmt::format("{}", base.stamp.start)},
                   {"clock_minus_boot", fmt::format("{}", base.stamp.clock_minus_boot)},
                   {"boot_id", base.stamp.boot_id},
                   {"device", base.device},
                   {"inode", fmt::format("{}", static_cast<std::int64_t>(base.inode))},
                   {"trust", base.trust == StampTrust::Inode ? "inode" : "inode-and-name"},
                   {"known", std::move(known)}});
}

Result<Base> decode_base(std::string_view text) {
  TRY(const json::value value,
      parse_strict_json(text, {.max_bytes = kLargestRecord, .max_depth = 3}));
  TRY(JsonFields fields, JsonFields::of(value, "base.json"));
  Base base;
  TRY(base.stamp.start, signed_field(fields, "start"));
  TRY(base.stamp.clock_minus_boot, signed_field(fields, "clock_minus_boot"));
  TRY(base.stamp.boot_id, fields.text("boot_id"));
  TRY(base.device, fields.integer("device"));
  TRY(const std::int64_t inode, signed_field(fields, "inode"));
  base.inode = static_cast<std::uint64_t>(inode);
  TRY(const std::string_view trust, fields.text("trust"));
  base.trust = trust == "inode" ? StampTrust::Inode : StampTrust::InodeAndName;
  TRY(const json::array* known, fields.array("known"));
  TRY(base.known, decode_known(*known));
  TRY_VOID(fields.finish());
  return base;
}

}  // namespace glovebox::workspace
