#include "egress/rules/egress_rules.h"

#include "authority/terms.h"

#include <algorithm>

namespace glovebox::egress {
namespace {

using authority::AuthoritySet;
using authority::ConnectTCP;
using authority::Decision;
using authority::DomainPattern;
using authority::Effect;
using authority::IpNetwork;
using authority::PortRange;
using Kind = ConnectVerdict::Kind;

std::optional<PortRange> one_port(std::uint16_t port) {
  const auto range = PortRange::make(port, port);
  if (!range) return std::nullopt;  // port 0
  return *range;
}

// Whether the rule that decided names this range of addresses, and not merely one that contains it.
bool is_literal(const Decision& decision, const Endpoint& to) {
  if (decision.effect != Effect::Allow || !decision.rule) return false;
  const auto* connect = std::get_if<ConnectTCP>(&decision.rule->capability);
  const auto* network = connect == nullptr ? nullptr : std::get_if<IpNetwork>(&connect->host);
  return network != nullptr && network->prefix() >= block_prefix(to.address);
}

// Every wide grant of addresses reaches the public and the private ones.
bool is_granted_by_address(const Decision& decision, const Endpoint& to, Range range) {
  if (range == Range::Unspecified) return false;
  if (range == Range::Public || range == Range::Private) return decision.effect == Effect::Allow;
  return is_literal(decision, to);
}

ConnectVerdict refused(const Endpoint& to, std::span<const std::string> names, std::string why) {
  ConnectVerdict verdict;
  verdict.name = names.empty() ? "" : names.front();
  verdict.missing = names.empty() || range_of(to.address) != Range::Public
                        ? fmt::format("connect={}", to.to_text())
                        : fmt::format("connect={}:{}", names.front(), to.port);
  verdict.why = std::move(why);
  return verdict;
}

// Why an address that the box was given for names must not be reached, if all that the rules say
// about those names is no.
std::optional<std::string> denial_of_names(const AuthoritySet& authority,
                                           std::span<const std::string> names,
                                           const authority::PortRange& port) {
  std::optional<std::string> denial;
  for (const std::string& name : names) {
    const auto pattern = DomainPattern::parse(name);
    if (!pattern) continue;
    const Decision said = authority.decide(ConnectTCP{*pattern, port});
    if (said.effect == Effect::Allow) return std::nullopt;
    if (said.effect == Effect::Deny && said.rule) {
      denial = fmt::format("a rule says '{}'", authority::to_text(*said.rule));
    }
  }
  return denial;
}

}  // namespace

ConnectVerdict decide_connect(const AuthoritySet& authority, const Endpoint& to,
                              std::span<const std::string> names) {
  const Range range = range_of(to.address);
  const bool inside = range == Range::Loopback || range == Range::Unspecified;
  const auto port = one_port(to.port);
  if (!port)
    return inside ? ConnectVerdict{Kind::Inside, "", "", ""}
                  : refused(to, names, "port 0 is no port");
  const Decision by_address = authority.decide(ConnectTCP{to.address, *port});
  if (is_granted_by_address(by_address, to, range)) {
    const auto denial = denial_of_names(authority, names, *port);
    return denial ? refused(to, names, *denial) : ConnectVerdict{Kind::Outside, "", "", ""};
  }
  // Typed in, it is the box's own loopback. A name that leads there was meant to lead elsewhere.
  if (inside && names.empty()) return {Kind::Inside, "", "", ""};
  if (by_address.effect == Effect::Deny) {
    return refused(to, names,
                   by_address.rule
                       ? fmt::format("a rule says '{}'", authority::to_text(*by_address.rule))
                       : "a rule denies it");
  }
  bool name_granted = false;
  for (const std::string& name : names) {
    const auto pattern = DomainPattern::parse(name);
    if (!pattern) continue;
    if (authority.decide(ConnectTCP{*pattern, *port}).effect != Effect::Allow) continue;
    if (range == Range::Public) return {Kind::Outside, name, "", ""};
    name_granted = true;
  }
  if (name_granted) {
    return refused(to, names,
                   fmt::format("{} leads to a {} address, which a name's grant does not reach",
                               names.front(), to_text(range)));
  }
  return refused(to, names, "no rule grants it");
}

std::vector<std::uint16_t> telling_ports(const AuthoritySet& authority) {
  std::vector<std::uint16_t> ports;
  for (const authority::Rule& rule : authority.rules()) {
    const auto* connect = std::get_if<ConnectTCP>(&rule.capability);
    if (connect == nullptr) continue;
    const int first = connect->ports.first();
    const int last = connect->ports.last();
    for (const int port : {first, last, first - 1, last + 1}) {
      if (port < PortRange::kFirst || port > PortRange::kLast) continue;
      ports.push_back(static_cast<std::uint16_t>(port));
    }
  }
  std::ranges::sort(ports);
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  return ports;
}

bool may_look_up(const AuthoritySet& authority, std::span<const std::uint16_t> ports,
                 const std::string& name) {
  const auto pattern = DomainPattern::parse(name);
  if (!pattern || pattern->reach() != authority::Reach::Exact) return false;
  const Effect resolve = authority.decide(authority::ResolveName{*pattern}).effect;
  if (resolve != Effect::Silent) return resolve == Effect::Allow;
  return std::ranges::any_of(ports, [&](std::uint16_t number) {
    const auto port = one_port(number);
    return port && authority.decide(ConnectTCP{*pattern, *port}).effect == Effect::Allow;
  });
}

std::optional<Endpoint> find_published(const AuthoritySet& authority,
                                       std::span<const plan::Publication> published,
                                       const Endpoint& bound) {
  const Range range = range_of(bound.address);
  const bool own = range == Range::Unspecified || range == Range::Loopback;
  const auto known = std::ranges::find(published, bound.port, &plan::Publication::inside);
  if (own && known != published.end()) return Endpoint{known->address, known->outside};
  const auto port = one_port(bound.port);
  if (!port || range == Range::Loopback) return std::nullopt;
  const Effect effect = authority.decide(authority::ListenTCP{bound.address, *port}).effect;
  if (effect != Effect::Allow) return std::nullopt;
  return bound;
}

}  // namespace glovebox::egress
