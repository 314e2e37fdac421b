#include "authority/placement.h"

#include "base/result.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace glovebox::authority {
namespace {

constexpr Facet kRead = kReadFacet, kWrite = kWriteFacet, kExec = kExecFacet, kUnix = kUnixFacet;
constexpr Facet kPass = 0, kSet = 1;
constexpr Facet kPlain = 0, kShell = 1;

// ---- Keys. Each is the path from the root of its tree, written so that no key is a prefix of
// another unless it lies above it. A part ends with NUL, which no part contains.

std::string with_end(std::string_view part) {
  std::string key(part);
  key += '\0';
  return key;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string key_of(const AbsolutePath& path) { return path_key(path); }

// "*" stands for "anything below", "=" for "this one itself": *.example.com is "*com.*example.*",
// example.com is "*com.*example.=", and the first lies beside the second, above all deeper names.
std::string dotted_key(const std::vector<std::string_view>& parts, Reach reach) {
  std::string key = "*";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    key += with_end(parts[i]);
    key += is_last && reach == Reach::Exact ? '=' : '*';
  }
  return key;
}

struct Dotted {
  std::vector<std::string_view> parts;
  Reach reach;
};

Dotted read_dotted_key(std::string_view key) {
  Dotted dotted{{}, key.back() == '=' ? Reach::Exact : Reach::Below};
  for (std::string_view rest = key.substr(1); !rest.empty();) {
    const std::size_t end = rest.find('\0');
    dotted.parts.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 2);  // the NUL and the mark after it
  }
  return dotted;
}

std::string key_of(const ModulePattern& module) {
  return dotted_key(split(module.name(), '.'), module.reach());
}

std::string key_of(const DomainPattern& domain) {
  std::vector<std::string_view> labels = split(domain.name(), '.');
  std::reverse(labels.begin(), labels.end());
  return dotted_key(labels, domain.reach());
}

std::string key_of(const IpNetwork& network) {
  std::string key = network.family() == Family::V4 ? "4" : "6";
  for (unsigned bit = 0; bit < network.prefix(); ++bit) {
    key += (network.bytes()[bit / 8] >> (7 - bit % 8) & 1U) != 0 ? '1' : '0';
  }
  return key;
}

std::string key_of(const AnyHost&) { return ""; }

template <class... Hosts>
std::string host_key(const std::variant<Hosts...>& host) {
  return std::visit([](const auto& each) { return key_of(each); }, host);
}

std::string key_of(const Env& env) {
  std::string key = with_end(env.name.text());
  if (env.value) key.append("=").append(with_end(env.value->text()));
  return key;
}

// ---- And back. Keys come from places_of(), so what they are made of was checked before.

template <class T>
T sure(Result<T> result) {
  GLOVEBOX_CHECK(result.has_value());
  return *std::move(result);
}

std::string_view without_end(std::string_view key) { return key.substr(0, key.size() - 1); }

AbsolutePath path_from(std::string_view key) {
  std::string text;
  for (const std::string_view component : split(key, '\0')) text.append("/").append(component);
  return sure(AbsolutePath::parse(text.empty() ? "/" : text));
}

std::string join(const std::vector<std::string_view>& parts) {
  std::string text;
  for (const std::string_view part : parts) text.append(text.empty() ? "" : ".").append(part);
  return text;
}

ModulePattern module_from(std::string_view key) {
  const Dotted dotted = read_dotted_key(key);
  if (dotted.parts.empty()) return sure(ModulePattern::parse("*"));
  return sure(
      ModulePattern::parse(join(dotted.parts) + (dotted.reach == Reach::Below ? ".*" : "")));
}

DomainPattern domain_from(std::string_view key) {
  Dotted dotted = read_dotted_key(key);
  if (dotted.parts.empty()) return sure(DomainPattern::parse("*"));
  std::reverse(dotted.parts.begin(), dotted.parts.end());
  return sure(
      DomainPattern::parse((dotted.reach == Reach::Below ? "*." : "") + join(dotted.parts)));
}

IpNetwork network_from(std::string_view key) {
  const Family family = key.front() == '4' ? Family::V4 : Family::V6;
  const std::string_view bits = key.substr(1);
  IpNetwork::Bytes bytes{};
  for (std::size_t bit = 0; bit < bits.size(); ++bit) {
    if (bits[bit] == '1') bytes[bit / 8] |= static_cast<std::uint8_t>(1U << (7 - bit % 8));
  }
  return sure(IpNetwork::make(family, bytes, static_cast<unsigned>(bits.size())));
}

HostPattern host_from(std::string_view key) {
  if (key.empty()) return AnyHost{};
  if (key.front() == '*') return domain_from(key);
  return network_from(key);
}

ListenAddress address_from(std::string_view key) {
  if (key.empty()) return AnyHost{};
  return network_from(key);
}

Env env_from(std::string_view key) {
  const std::size_t end = key.find('\0');
  EnvName name = sure(EnvName::parse(key.substr(0, end)));
  if (end + 1 == key.size()) return {std::move(name), std::nullopt};
  return {std::move(name), sure(EnvValue::parse(without_end(key.substr(end + 2))))};
}

// ---- Capability to place, one overload a kind.

struct Range {
  Facet first;
  Facet last;
};

Place at_place(Ground ground, std::string key, Range range, Effect effect) {
  return {ground, {std::move(key), {range.first, range.last, effect}, /*breadth=*/0}};
}

// Among ports the narrower range is the more specific rule.
Place at_ports(Ground ground, std::string key, PortRange ports, Effect effect) {
  Place place = at_place(ground, std::move(key), {ports.first(), ports.last()}, effect);
  place.clause.breadth = ports.last() - ports.first() + 1U;
  return place;
}

// Facet `strong` implies facet `weak`: granting the strong grants both, and what takes the weak
// away takes both.
Range range_for_weak(Facet weak, Facet strong, Effect effect) {
  return effect == Effect::Allow ? Range{weak, weak} : Range{weak, strong};
}
Range range_for_strong(Facet weak, Facet strong, Effect effect) {
  return effect == Effect::Allow ? Range{weak, strong} : Range{strong, strong};
}

using Places = std::vector<Place>;

Places places(const ReadPath& read, Effect effect) {
  return {
      at_place(Ground::Paths, key_of(read.path), range_for_weak(kRead, kWrite, effect), effect)};
}
Places places(const WritePath& write, Effect effect) {
  return {
      at_place(Ground::Paths, key_of(write.path), range_for_strong(kRead, kWrite, effect), effect)};
}
Places places(const ExecPath& exec, Effect effect) {
  return {at_place(Ground::Paths, key_of(exec.path), {kExec, kExec}, effect)};
}
Places places(const ConnectUnix& socket, Effect effect) {
  return {at_place(Ground::Paths, key_of(socket.path), {kUnix, kUnix}, effect)};
}
Places places(const ConnectTCP& connect, Effect effect) {
  return {at_ports(Ground::Connect, host_key(connect.host), connect.ports, effect)};
}
Places places(const ListenTCP& listen, Effect effect) {
  return {at_ports(Ground::Listen, host_key(listen.address), listen.ports, effect)};
}
Places places(const ResolveName& resolve, Effect effect) {
  return {at_place(Ground::Resolve, key_of(resolve.name), {0, 0}, effect)};
}
Places places(const Import& import, Effect effect) {
  return {at_place(Ground::Imports, key_of(import.module), {0, 0}, effect)};
}
// To allow a variable without a value is to pass it on; to deny it is to have none of that name.
Places places(const Env& env, Effect effect) {
  const Range whole = effect == Effect::Allow ? Range{kPass, kPass} : Range{kPass, kSet};
  return {at_place(Ground::Variables, key_of(env), env.value ? Range{kSet, kSet} : whole, effect)};
}
Places places(const Secret& secret, Effect effect) {
  return {at_place(Ground::Secrets, with_end(secret.name.text()), {0, 0}, effect)};
}
Places places(const Subprocess& subprocess, Effect effect) {
  const Range range = subprocess.shell() == Shell::Allowed
                          ? range_for_strong(kPlain, kShell, effect)
                          : range_for_weak(kPlain, kShell, effect);
  Places all;
  for (const CommandName& command : subprocess.commands()) {
    all.push_back(at_place(Ground::Commands, with_end(command.text()), range, effect));
  }
  return all;
}
Places places(const Clock&, Effect effect) { return {at_place(Ground::Clock, "", {0, 0}, effect)}; }
Places places(const Random&, Effect effect) {
  return {at_place(Ground::Random, "", {0, 0}, effect)};
}
Places places(const Channel& channel, Effect effect) {
  return {at_place(Ground::Channels, with_end(channel.name.text()), {0, 0}, effect)};
}
Places places(const Syscalls& group, Effect effect) {
  return {at_place(Ground::Syscalls, with_end(group.name.text()), {0, 0}, effect)};
}
template <BudgetKind K>
Places places(const Budget<K>&, Effect) {
  return {};
}

// ---- Place to rules.

Capability command_from(std::string_view key, Shell shell) {
  return sure(Subprocess::make({sure(CommandName::parse(without_end(key)))}, shell));
}

// For the grounds where a place has one facet that a rule names alone.
Capability single_from(Ground ground, std::string_view key) {
  switch (ground) {
    case Ground::Resolve: return ResolveName{domain_from(key)};
    case Ground::Imports: return Import{module_from(key)};
    case Ground::Variables: return env_from(key);
    case Ground::Secrets: return Secret{sure(SecretName::parse(without_end(key)))};
    case Ground::Channels: return Channel{sure(ChannelName::parse(without_end(key)))};
    case Ground::Syscalls: return Syscalls{sure(SyscallGroupName::parse(without_end(key)))};
    case Ground::Random: return Random{};
    default: GLOVEBOX_CHECK(ground == Ground::Clock); return Clock{};
  }
}

// The rules for a weak facet 0 and a strong facet 1 that implies it. A rule on one may speak of
// the other (see range_for_weak), so the second is written only if the first left it wrong.
void add_pair_rules(std::vector<Rule>& rules, const FacetMap& map, const FacetMap& before,
                    const Capability& weak, const Capability& strong) {
  const Effect weak_effect = map.at(0);
  const Effect strong_effect = map.at(1);
  if (strong_effect == Effect::Allow) {
    const bool changes = before.at(0) != Effect::Allow || before.at(1) != Effect::Allow;
    if (changes) rules.push_back({Effect::Allow, strong});
    return;
  }
  Effect strong_so_far = before.at(1);
  if (weak_effect != before.at(0)) {
    rules.push_back({weak_effect, weak});
    if (weak_effect != Effect::Allow) strong_so_far = weak_effect;
  }
  if (strong_effect != strong_so_far) rules.push_back({strong_effect, strong});
}

void add_single_rule(std::vector<Rule>& rules, const FacetMap& map, const FacetMap& before,
                     Facet facet, const Capability& capability) {
  if (map.at(facet) != before.at(facet)) rules.push_back({map.at(facet), capability});
}

std::vector<Rule> path_rules(std::string_view key, const FacetMap& map, const FacetMap& before) {
  const AbsolutePath path = path_from(key);
  std::vector<Rule> rules;
  add_pair_rules(rules, map, before, ReadPath{path}, WritePath{path});
  add_single_rule(rules, map, before, kExec, ExecPath{path});
  add_single_rule(rules, map, before, kUnix, ConnectUnix{path});
  return rules;
}

std::vector<Rule> port_rules(Ground ground, std::string_view key, const FacetMap& map,
                             const FacetMap& before) {
  std::vector<Rule> rules;
  for (const Span& span : FacetMap::differences(map, before)) {
    const PortRange ports = sure(PortRange::make(span.first, span.last));
    if (ground == Ground::Connect) {
      rules.push_back({span.effect, ConnectTCP{host_from(key), ports}});
    } else {
      rules.push_back({span.effect, ListenTCP{address_from(key), ports}});
    }
  }
  return rules;
}

bool second_facet_implies_first(Ground ground) {
  return ground == Ground::Paths || ground == Ground::Commands;
}

void settle_pair(FacetMap& map) {
  if (map.at(0) == Effect::Deny) map.paint({1, 1, Effect::Deny});
  if (map.at(1) == Effect::Allow) map.paint({0, 0, Effect::Allow});
}

void settle_nothing(FacetMap&) {}

}  // namespace

std::string path_key(const AbsolutePath& path) {
  std::string key = path.text().substr(1);
  if (key.empty()) return key;
  std::replace(key.begin(), key.end(), '/', '\0');
  key += '\0';
  return key;
}

std::vector<Place> places_of(const Rule& rule) {
  return std::visit([&](const auto& capability) { return places(capability, rule.effect); },
                    rule.capability);
}

std::vector<Place> points_of(const Capability& capability) {
  std::vector<Place> points = places_of({Effect::Allow, capability});
  for (Place& point : points) {
    if (second_facet_implies_first(point.ground)) point.clause.span.first = point.clause.span.last;
  }
  return points;
}

std::vector<Rule> rules_at(Ground ground, std::string_view key, const FacetMap& map,
                           const FacetMap& before) {
  if (ground == Ground::Paths) return path_rules(key, map, before);
  if (ground == Ground::Connect || ground == Ground::Listen) {
    return port_rules(ground, key, map, before);
  }
  std::vector<Rule> rules;
  if (ground == Ground::Commands) {
    add_pair_rules(rules, map, before, command_from(key, Shell::Refused),
                   command_from(key, Shell::Allowed));
    return rules;
  }
  const Capability capability = single_from(ground, key);
  const auto* env = std::get_if<Env>(&capability);
  const Facet facet = env != nullptr && env->value ? kSet : 0;
  add_single_rule(rules, map, before, facet, capability);
  return rules;
}

RuleTree::Settle settle_for(Ground ground) {
  return second_facet_implies_first(ground) ? settle_pair : settle_nothing;
}

}  // namespace glovebox::authority
