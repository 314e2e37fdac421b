#include "authority/json_codec.h"

#include "base/plain_text.h"
#include "base/strict_json.h"

#include <algorithm>
#include <array>

namespace glovebox::authority {
namespace {

namespace json = boost::json;

// ---- Encoding: what each kind adds beside its tag.

void put_ports(json::object& out, PortRange ports) {
  if (ports.is_single()) {
    out["port"] = ports.first();
  } else {
    out["ports"] = json::array{ports.first(), ports.last()};
  }
}

void put(json::object& out, const ReadPath& read) { out["path"] = read.path.text(); }
void put(json::object& out, const WritePath& write) { out["path"] = write.path.text(); }
void put(json::object& out, const ExecPath& exec) { out["path"] = exec.path.text(); }
void put(json::object& out, const ConnectUnix& socket) { out["path"] = socket.path.text(); }
void put(json::object& out, const ConnectTCP& connect) {
  out["host"] = to_text(connect.host);
  put_ports(out, connect.ports);
}
void put(json::object& out, const ListenTCP& listen) {
  out["host"] = to_text(listen.address);
  put_ports(out, listen.ports);
}
void put(json::object& out, const ResolveName& resolve) { out["name"] = resolve.name.to_text(); }
void put(json::object& out, const Import& import) { out["module"] = import.module.to_text(); }
void put(json::object& out, const Env& env) {
  out["name"] = env.name.text();
  if (env.value) out["value"] = env.value->text();
}
void put(json::object& out, const Secret& secret) { out["name"] = secret.name.text(); }
void put(json::object& out, const Subprocess& subprocess) {
  json::array commands;
  for (const CommandName& command : subprocess.commands()) {
    commands.emplace_back(command.text());
  }
  out["commands"] = std::move(commands);
  out["allow_shell"] = subprocess.shell() == Shell::Allowed;
}
void put(json::object&, const Clock&) {}
void put(json::object&, const Random&) {}
void put(json::object& out, const Channel& channel) { out["name"] = channel.name.text(); }
void put(json::object& out, const Syscalls& group) { out["name"] = group.name.text(); }
template <BudgetKind K>
void put(json::object& out, const Budget<K>& budget) {
  const std::string_view field = field_name(info(K).unit);
  out[json::string_view(field.data(), field.size())] = budget.amount();
}

// ---- Decoding: one function a kind, each reading exactly the fields that put() writes.

Result<PortRange> read_ports(JsonFields& fields) {
  if (fields.find("ports") == nullptr) {
    TRY(const std::uint64_t port, fields.integer("port"));
    return PortRange::make(port, port);
  }
  TRY(const json::array* ends, fields.array("ports"));
  if (ends->size() != 2) return fail(Code::Invalid, "'ports' must be [first, last]");
  TRY(const std::uint64_t first, json_integer((*ends)[0], "'ports'"));
  TRY(const std::uint64_t last, json_integer((*ends)[1], "'ports'"));
  return PortRange::make(first, last);
}

// For the kinds that are one text; `field` is its name.
template <class Kind>
Result<Capability> read_text(JsonFields& fields, std::string_view field) {
  TRY(const std::string_view text, fields.text(field));
  TRY(Kind capability, Kind::parse(text));
  return Capability(std::move(capability));
}

template <class Kind>
Result<Capability> read_path(JsonFields& fields) {
  return read_text<Kind>(fields, "path");
}

template <class Kind>
Result<Capability> read_name(JsonFields& fields) {
  return read_text<Kind>(fields, "name");
}

Result<Capability> read_import(JsonFields& fields) { return read_text<Import>(fields, "module"); }

Result<Capability> read_connect(JsonFields& fields) {
  TRY(const std::string_view text, fields.text("host"));
  TRY(HostPattern host, parse_host(text));
  TRY(const PortRange ports, read_ports(fields));
  return Capability(ConnectTCP{std::move(host), ports});
}

Result<Capability> read_listen(JsonFields& fields) {
  TRY(const std::string_view text, fields.text("host"));
  TRY(const ListenAddress address, parse_listen_address(text));
  TRY(const PortRange ports, read_ports(fields));
  return Capability(ListenTCP{address, ports});
}

Result<Capability> read_env(JsonFields& fields) {
  TRY(const std::string_view text, fields.text("name"));
  TRY(EnvName name, EnvName::parse(text));
  if (fields.find("value") == nullptr) return Capability(Env{std::move(name), std::nullopt});
  TRY(const std::string_view value_text, fields.text("value"));
  TRY(EnvValue value, EnvValue::parse(value_text));
  return Capability(Env{std::move(name), std::move(value)});
}

Result<Capability> read_subprocess(JsonFields& fields) {
  TRY(const json::array* list, fields.array("commands"));
  TRY(const bool allow_shell, fields.boolean("allow_shell"));
  std::vector<CommandName> commands;
  for (const json::value& each : *list) {
    TRY(const std::string_view text, json_text(each, "a command"));
    TRY(CommandName command, CommandName::parse(text));
    commands.push_back(std::move(command));
  }
  TRY(Subprocess subprocess,
      Subprocess::make(std::move(commands), allow_shell ? Shell::Allowed : Shell::Refused));
  return Capability(std::move(subprocess));
}

template <class Kind>
Result<Capability> read_nothing(JsonFields&) {
  return Capability(Kind{});
}

template <BudgetKind K>
Result<Capability> read_budget(JsonFields& fields) {
  TRY(const std::uint64_t amount, fields.integer(field_name(info(K).unit)));
  return make_budget(K, amount);
}

struct KindCodec {
  std::string_view kind;
  Result<Capability> (*read)(JsonFields&);
};

template <BudgetKind K>
constexpr KindCodec budget_codec() {
  return {info(K).tag, read_budget<K>};
}

// In the order of the variant, so that a capability's index finds its kind.
constexpr std::array<KindCodec, 26> kCodecs{{
    {"read_path", read_path<ReadPath>},
    {"write_path", read_path<WritePath>},
    {"exec_path", read_path<ExecPath>},
    {"connect_tcp", read_connect},
    {"listen_tcp", read_listen},
    {"connect_unix", read_path<ConnectUnix>},
    {"resolve_name", read_name<ResolveName>},
    {"import", read_import},
    {"env", read_env},
    {"secret", read_name<Secret>},
    {"subprocess", read_subprocess},
    {"clock", read_nothing<Clock>},
    {"random", read_nothing<Random>},
    {"channel", read_name<Channel>},
    {"syscalls", read_name<Syscalls>},
    budget_codec<BudgetKind::Cpu>(),
    budget_codec<BudgetKind::Memory>(),
    budget_codec<BudgetKind::Pids>(),
    budget_codec<BudgetKind::Wall>(),
    budget_codec<BudgetKind::Disk>(),
    budget_codec<BudgetKind::Inodes>(),
    budget_codec<BudgetKind::Output>(),
    budget_codec<BudgetKind::OpenFiles>(),
    budget_codec<BudgetKind::Connections>(),
    budget_codec<BudgetKind::EgressBytes>(),
    budget_codec<BudgetKind::ConnectRate>(),
}};
static_assert(kCodecs.size() == std::variant_size_v<Capability>);

constexpr std::array<Effect, 3> kEffects{Effect::Allow, Effect::Deny, Effect::Silent};

Result<void> read_rules(JsonFields& fields, Effect effect, std::vector<Rule>& rules) {
  const std::string_view name = to_text(effect);
  if (fields.find(name) == nullptr) return {};
  TRY(const json::array* list, fields.array(name));
  if (rules.size() + list->size() > AuthoritySet::kMaxRules) {
    return fail(Code::Exhausted, "authority: more than {} rules", AuthoritySet::kMaxRules);
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto capability = capability_from_json((*list)[i]);
    if (!capability) {
      return fail(capability.error().code, "{}[{}]: {}", name, i, capability.error().message);
    }
    rules.push_back({effect, *std::move(capability)});
  }
  return {};
}

std::string text_of(const json::value& value) {
  const auto text = json::serialize(value);
  return {text.data(), text.size()};
}

}  // namespace

std::string_view json_kind(const Capability& capability) {
  return kCodecs[capability.index()].kind;
}

json::value to_json(const Capability& capability) {
  json::object out;
  const std::string_view kind = json_kind(capability);
  out["kind"] = json::string_view(kind.data(), kind.size());
  std::visit([&](const auto& value) { put(out, value); }, capability);
  return out;
}

Result<Capability> capability_from_json(const json::value& value) {
  TRY(JsonFields tagged, JsonFields::of(value, "capability"));
  TRY(const std::string_view kind, tagged.text("kind"));
  const auto codec = std::find_if(kCodecs.begin(), kCodecs.end(),
                                  [&](const KindCodec& each) { return each.kind == kind; });
  if (codec == kCodecs.end()) {
    return fail(Code::Invalid, "capability: unknown kind {}", quoted(kind));
  }
  TRY(JsonFields fields, JsonFields::of(value, std::string(codec->kind)));
  fields.find("kind");
  TRY(Capability capability, codec->read(fields));
  TRY_VOID(fields.finish());
  return capability;
}

Result<json::value> to_json(const AuthoritySet& set) {
  const std::vector<Rule> rules = set.rules();
  if (rules.size() > AuthoritySet::kMaxRules) {
    return fail(Code::Exhausted, "authority: {} rules, at most {} are written", rules.size(),
                AuthoritySet::kMaxRules);
  }
  json::object out;
  out["version"] = kJsonVersion;
  for (const Effect effect : kEffects) {
    json::array list;
    for (const Rule& rule : rules) {
      if (rule.effect == effect) list.push_back(to_json(rule.capability));
    }
    const std::string_view name = to_text(effect);
    if (!list.empty()) out[json::string_view(name.data(), name.size())] = std::move(list);
  }
  return json::value(std::move(out));
}

Result<AuthoritySet> set_from_json(const json::value& value) {
  TRY(JsonFields fields, JsonFields::of(value, "authority"));
  TRY(const std::uint64_t version, fields.integer("version"));
  if (version != kJsonVersion) {
    return fail(Code::Unsupported, "authority: version {} (this build reads {})", version,
                kJsonVersion);
  }
  std::vector<Rule> rules;
  for (const Effect effect : kEffects) TRY_VOID(read_rules(fields, effect, rules));
  TRY_VOID(fields.finish());
  return AuthoritySet::from_rules(rules);
}

Result<std::string> encode_set(const AuthoritySet& set) {
  TRY(const json::value value, to_json(set));
  return text_of(value);
}

Result<AuthoritySet> decode_set(std::string_view text) {
  TRY(const json::value value, parse_strict_json(text));
  return set_from_json(value);
}

std::string encode_capability(const Capability& capability) { return text_of(to_json(capability)); }

Result<Capability> decode_capability(std::string_view text) {
  TRY(const json::value value, parse_strict_json(text));
  return capability_from_json(value);
}

}  // namespace glovebox::authority
