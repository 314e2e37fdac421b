#include "checkpoint/header.h"

#include "base/strict_json.h"

namespace glovebox::checkpoint {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxText = 1024;
constexpr std::size_t kMaxStates = 8;

}  // namespace

Result<std::string> encode_header(const Header& header) {
  json::array state;
  for (const std::string& kind : header.state) state.emplace_back(kind);
  const std::string body = json::serialize(json::object{{"tenant", header.tenant},
                                                        {"policy", header.policy_digest},
                                                        {"state", std::move(state)},
                                                        {"key", header.key_id}});
  if (body.size() > kMaxHeaderBytes) return fail(Code::Exhausted, "the header is too large");
  std::string bytes(kMagic);
  bytes += static_cast<char>(kVersion);
  bytes.append(3, '\0');
  for (unsigned shift = 0; shift < 32; shift += 8) {
    bytes += static_cast<char>((body.size() >> shift) & 0xffU);
  }
  // What is written can be read.
  TRY_VOID(decode_header_body(body));
  return bytes + body;
}

Result<std::size_t> decode_prelude(std::string_view prelude) {
  if (prelude.size() != kPreludeBytes || !prelude.starts_with(kMagic)) {
    return fail(Code::Invalid, "this is no checkpoint");
  }
  const auto version = static_cast<std::uint8_t>(prelude[8]);
  if (version != kVersion) {
    return fail(Code::Unsupported, "the checkpoint has version {}, and this program knows {}",
                version, kVersion);
  }
  if (prelude.substr(9, 3) != std::string_view("\0\0\0", 3)) {
    return fail(Code::Invalid, "the checkpoint is damaged: its first bytes");
  }
  std::size_t size = 0;
  for (unsigned i = 0; i < 4; ++i) {
    size |= std::size_t{static_cast<unsigned char>(prelude[12 + i])} << (8 * i);
  }
  if (size == 0 || size > kMaxHeaderBytes) {
    return fail(Code::Invalid, "the checkpoint is damaged: a header of {} bytes", size);
  }
  return size;
}

Result<Header> decode_header_body(std::string_view text) {
  TRY(const json::value value,
      parse_strict_json(text, {.max_bytes = kMaxHeaderBytes, .max_depth = 3}));
  TRY(JsonFields fields, JsonFields::of(value, "checkpoint"));
  Header header;
  TRY(header.tenant, fields.text("tenant"));
  TRY(header.policy_digest, fields.text("policy"));
  TRY(header.key_id, fields.text("key"));
  TRY(const json::array* state, fields.array("state"));
  TRY_VOID(fields.finish());
  for (const json::value& item : *state) {
    TRY(const std::string_view kind, json_text(item, "state"));
    header.state.emplace_back(kind);
  }
  const bool fits = header.tenant.size() <= kMaxText && header.policy_digest.size() <= kMaxText &&
                    header.key_id.size() <= kMaxText && header.state.size() <= kMaxStates;
  if (!fits) return fail(Code::Invalid, "checkpoint: a field is too large");
  return header;
}

}  // namespace glovebox::checkpoint
