#include "authority/legacy_codec.h"

#include "authority/terms.h"
#include "base/plain_text.h"
#include "base/strict_json.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace glovebox::authority {
namespace {

namespace json = boost::json;

constexpr std::string_view kMarker = "__pyisolate_capability__";
constexpr std::uint32_t kMaxPortsApart = 256;  // a wider range is refused, not written port by port

json::string_view boost_view(std::string_view text) { return {text.data(), text.size()}; }

// ---- Reading.

// What the tags of a document add up to.
struct Reading {
  std::vector<Capability> capabilities;
  std::vector<LegacySecret> secrets;
};

// Legacy hosts and modules are compared by the letter. What is a pattern or a range to us must not
// become one by being read.
bool is_one_host(const HostPattern& host) {
  const auto* network = std::get_if<IpNetwork>(&host);
  const auto* domain = std::get_if<DomainPattern>(&host);
  return (network != nullptr && network->is_single_address()) ||
         (domain != nullptr && domain->reach() == Reach::Exact);
}
bool is_literal(const ConnectTCP& connect) {
  return is_one_host(connect.host) && connect.ports.is_single();
}
bool is_literal(const Import& import) { return import.module.reach() == Reach::Exact; }
template <class Kind>
bool is_literal(const Kind&) {
  return true;
}

template <class Kind>
Result<void> add(Reading& reading, Kind capability) {
  if (!is_literal(capability)) {
    return fail(Code::Invalid, "{}: a legacy grant has no patterns and ranges",
                quoted(capability.value_text()));
  }
  reading.capabilities.emplace_back(std::move(capability));
  return {};
}

template <class Kind>
Result<void> add_parsed(Reading& reading, std::string_view text) {
  TRY(Kind capability, Kind::parse(text));
  return add(reading, std::move(capability));
}

template <class Kind>
Result<void> add_each(Reading& reading, JsonFields& fields, std::string_view field) {
  TRY(const json::array* list, fields.array(field));
  for (const json::value& each : *list) {
    TRY(const std::string_view text, json_text(each, field));
    TRY_VOID(add_parsed<Kind>(reading, text));
  }
  return {};
}

template <class Kind>
Result<void> add_one(Reading& reading, JsonFields& fields, std::string_view field) {
  TRY(const std::string_view text, fields.text(field));
  return add_parsed<Kind>(reading, text);
}

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

// Names the secret in its error and shows nothing of the value.
Result<std::string> bytes_from_hex(std::string_view hex, std::string_view secret) {
  std::string bytes;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    const int high = hex_value(hex[at]);
    const int low = at + 1 < hex.size() ? hex_value(hex[at + 1]) : -1;
    if (high < 0 || low < 0) return fail(Code::Invalid, "secret {}: not hex", quoted(secret));
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

Result<void> read_filesystem(Reading& reading, JsonFields& fields) {
  return add_each<WritePath>(reading, fields, "roots");
}

Result<void> read_network(Reading& reading, JsonFields& fields) {
  return add_each<ConnectTCP>(reading, fields, "destinations");
}

Result<void> read_secrets(Reading& reading, JsonFields& fields) {
  TRY(const json::object* values, fields.object("values"));
  for (const json::key_value_pair& each : *values) {
    const std::string_view name(each.key().data(), each.key().size());
    TRY_VOID(add_parsed<Secret>(reading, name));
    TRY(const std::string_view hex, json_text(each.value(), "a secret's value"));
    TRY(std::string value, bytes_from_hex(hex, name));
    reading.secrets.push_back({std::string(name), std::move(value)});
  }
  if (fields.find("references") == nullptr) return {};
  return add_each<Secret>(reading, fields, "references");
}

Result<void> read_subprocess(Reading& reading, JsonFields& fields) {
  TRY(const json::array* list, fields.array("allowed_commands"));
  TRY(const bool allow_shell, fields.boolean("allow_shell"));
  std::vector<CommandName> commands;
  for (const json::value& each : *list) {
    TRY(const std::string_view text, json_text(each, "a command"));
    TRY(CommandName command, CommandName::parse(text));
    commands.push_back(std::move(command));
  }
  if (commands.empty()) return {};  // grants nothing there too
  TRY(Subprocess subprocess,
      Subprocess::make(std::move(commands), allow_shell ? Shell::Allowed : Shell::Refused));
  reading.capabilities.emplace_back(std::move(subprocess));
  return {};
}

Result<void> read_read_path(Reading& reading, JsonFields& fields) {
  return add_one<ReadPath>(reading, fields, "path");
}

Result<void> read_write_path(Reading& reading, JsonFields& fields) {
  return add_one<WritePath>(reading, fields, "path");
}

Result<void> read_connect_tcp(Reading& reading, JsonFields& fields) {
  TRY(const std::string_view text, fields.text("host"));
  TRY(HostPattern host, parse_host(text));
  TRY(const std::uint64_t port, fields.integer("port"));
  TRY(const PortRange ports, PortRange::make(port, port));
  return add(reading, ConnectTCP{std::move(host), ports});
}

Result<void> read_import(Reading& reading, JsonFields& fields) {
  return add_one<Import>(reading, fields, "module");
}

Result<void> read_cpu_budget(Reading& reading, JsonFields& fields) {
  TRY(const std::uint64_t ms, fields.integer("ms"));
  TRY(const CpuBudget budget, CpuBudget::make(ms));
  reading.capabilities.emplace_back(budget);
  return {};
}

template <class Kind>
Result<void> read_bare(Reading& reading, JsonFields&) {
  reading.capabilities.emplace_back(Kind{});
  return {};
}

struct LegacyKind {
  std::string_view tag;
  Result<void> (*read)(Reading&, JsonFields&);
};

constexpr std::array<LegacyKind, 11> kLegacyKinds{{
    {"filesystem", read_filesystem},
    {"network", read_network},
    {"secrets", read_secrets},
    {"subprocess", read_subprocess},
    {"read_path", read_read_path},
    {"write_path", read_write_path},
    {"connect_tcp", read_connect_tcp},
    {"import", read_import},
    {"cpu_budget", read_cpu_budget},
    {"clock", read_bare<Clock>},
    {"random", read_bare<Random>},
}};

Result<void> read_tag(Reading& reading, const json::value& value) {
  TRY(JsonFields marked, JsonFields::of(value, "legacy capability"));
  TRY(const std::string_view tag, marked.text(kMarker));
  const auto kind = std::find_if(kLegacyKinds.begin(), kLegacyKinds.end(),
                                 [&](const LegacyKind& each) { return each.tag == tag; });
  if (kind == kLegacyKinds.end()) {
    return fail(Code::Invalid, "legacy capability: unknown kind {}", quoted(tag));
  }
  TRY(JsonFields fields, JsonFields::of(value, fmt::format("legacy {}", tag)));
  fields.find(kMarker);
  TRY_VOID(kind->read(reading, fields));
  return fields.finish();
}

// PyIsolate writes a tuple or set of capabilities as a list of their tags.
Result<void> read_tags(Reading& reading, const json::value& value) {
  const json::array* list = value.if_array();
  if (list == nullptr) return read_tag(reading, value);
  for (const json::value& each : *list) TRY_VOID(read_tag(reading, each));
  return {};
}

Result<void> read_document(Reading& reading, const json::value& value) {
  const json::object* names = value.if_object();
  const bool is_bare = names == nullptr || names->contains(boost_view(kMarker));
  if (is_bare) return read_tags(reading, value);
  for (const json::key_value_pair& each : *names) {
    const std::string_view name(each.key().data(), each.key().size());
    auto read = read_tags(reading, each.value());
    if (!read) return fail(read.error().code, "{}: {}", quoted(name), read.error().message);
  }
  return {};
}

// ---- Writing.

json::object tagged(std::string_view tag) {
  json::object out;
  out[boost_view(kMarker)] = boost_view(tag);
  return out;
}

// The document in the making.
struct Writing {
  json::array authority;
  json::array secrets;
  std::map<Shell, json::array> commands;
  std::map<std::string_view, json::object> named;  // "clock", "random"
};

tl::unexpected<Error> no_tag_for(std::string_view term) {
  return fail(Code::Unsupported, "{}: has no legacy form", quoted(term));
}

Result<void> write_text(Writing& writing, std::string_view tag, std::string_view field,
                        const std::string& text) {
  json::object out = tagged(tag);
  out[boost_view(field)] = text;
  writing.authority.push_back(std::move(out));
  return {};
}

Result<void> write(Writing& writing, const ReadPath& read) {
  return write_text(writing, "read_path", "path", read.path.text());
}
Result<void> write(Writing& writing, const WritePath& write) {
  return write_text(writing, "write_path", "path", write.path.text());
}
Result<void> write(Writing& writing, const Import& import) {
  if (!is_literal(import)) return no_tag_for(to_text(Capability(import)));
  return write_text(writing, "import", "module", import.module.name());
}
// The normal form joins neighbouring ports to a range; here they come apart again.
Result<void> write(Writing& writing, const ConnectTCP& connect) {
  const std::uint32_t first = connect.ports.first();
  const std::uint32_t last = connect.ports.last();
  if (!is_one_host(connect.host) || last - first >= kMaxPortsApart) {
    return no_tag_for(to_text(Capability(connect)));
  }
  for (std::uint32_t port = first; port <= last; ++port) {
    json::object out = tagged("connect_tcp");
    out["host"] = to_text(connect.host);
    out["port"] = port;
    writing.authority.push_back(std::move(out));
  }
  return {};
}
Result<void> write(Writing& writing, const CpuBudget& budget) {
  json::object out = tagged("cpu_budget");
  out["ms"] = budget.amount();
  writing.authority.push_back(std::move(out));
  return {};
}
Result<void> write(Writing& writing, const Secret& secret) {
  writing.secrets.emplace_back(secret.name.text());
  return {};
}
Result<void> write(Writing& writing, const Subprocess& subprocess) {
  for (const CommandName& command : subprocess.commands()) {
    writing.commands[subprocess.shell()].emplace_back(command.text());
  }
  return {};
}
Result<void> write(Writing& writing, const Clock&) {
  writing.named["clock"] = tagged("clock");
  return {};
}
Result<void> write(Writing& writing, const Random&) {
  writing.named["random"] = tagged("random");
  return {};
}
template <class Newer>
Result<void> write(Writing&, const Newer& newer) {
  return no_tag_for(to_text(Capability(newer)));
}

// PyIsolate looks for one subprocess grant, so commands with the shell form and commands without
// cannot both be said.
Result<void> finish_commands(Writing& writing) {
  if (writing.commands.size() > 1) {
    return fail(
        Code::Unsupported,
        "subprocess: commands with and without the shell form have no legacy form together");
  }
  for (auto& [shell, commands] : writing.commands) {
    json::object out = tagged("subprocess");
    out["allowed_commands"] = std::move(commands);
    out["allow_shell"] = shell == Shell::Allowed;
    writing.named["subprocess"] = std::move(out);
  }
  return {};
}

void finish_secrets(Writing& writing) {
  if (writing.secrets.empty()) return;
  json::object out = tagged("secrets");
  out["values"] = json::object();
  out["references"] = std::move(writing.secrets);
  writing.named["secrets"] = std::move(out);
}

}  // namespace

Result<LegacyAuthority> decode_legacy(std::string_view text) {
  TRY(const json::value value, parse_strict_json(text));
  Reading reading;
  TRY_VOID(read_document(reading, value));
  TRY(AuthoritySet authority, AuthoritySet::granting(reading.capabilities));
  return LegacyAuthority{std::move(authority), std::move(reading.secrets)};
}

Result<std::string> encode_legacy(const AuthoritySet& set) {
  Writing writing;
  for (const Rule& rule : set.rules()) {
    if (rule.effect != Effect::Allow) return no_tag_for(to_text(rule));
    TRY_VOID(std::visit([&](const auto& capability) { return write(writing, capability); },
                        rule.capability));
  }
  TRY_VOID(finish_commands(writing));
  finish_secrets(writing);
  json::object document;
  if (!writing.authority.empty()) document["authority"] = std::move(writing.authority);
  for (auto& [name, tag] : writing.named) document[boost_view(name)] = std::move(tag);
  const auto encoded = json::serialize(document);
  return std::string(encoded.data(), encoded.size());
}

}  // namespace glovebox::authority
