#include "plan/network_plan.h"

#include "authority/terms.h"
#include "plan/parts.h"

#include <algorithm>
#include <filesystem>

namespace glovebox::plan {
namespace {

using authority::Effect;
using authority::Rule;

constexpr std::string_view kNoNetwork = "empty network namespace";

bool opens_a_port_outside(const Rule& rule) {
  const auto* listen = std::get_if<authority::ListenTCP>(&rule.capability);
  return rule.effect == Effect::Allow && listen != nullptr && !is_loopback(listen->address);
}

bool may_connect(const Rule& rule) {
  return rule.effect == Effect::Allow &&
         std::holds_alternative<authority::ConnectTCP>(rule.capability);
}

// A grant that some name has to be looked up for.
bool needs_names(const Rule& rule) {
  if (rule.effect != Effect::Allow) return false;
  if (std::holds_alternative<authority::ResolveName>(rule.capability)) return true;
  const auto* connect = std::get_if<authority::ConnectTCP>(&rule.capability);
  return connect != nullptr && !std::holds_alternative<authority::IpNetwork>(connect->host);
}

bool has_grant(const SandboxSpec& spec, const std::vector<Rule>& rules) {
  return !spec.published.empty() || std::ranges::any_of(rules, [](const Rule& rule) {
    return may_connect(rule) || needs_names(rule) || opens_a_port_outside(rule);
  });
}

std::string hosts_text(const std::string& hostname) {
  return fmt::format(
      "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {}\n", hostname);
}

constexpr std::string_view kResolverText = "nameserver 127.0.0.1\noptions timeout:10 attempts:2\n";
constexpr std::string_view kSwitchText =
    "passwd: files\ngroup: files\nshadow: files\ngshadow: files\nhosts: files dns\n"
    "networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n";

// A link of the system leads somewhere: into the private /run, where the file is made, or to a
// place that the box does not have. Then programs use 127.0.0.1, which is where the resolver is.
void place_linked(const host::NameFile& file, std::string text, NameFiles& plan) {
  const auto target =
      (std::filesystem::path(file.path).parent_path() / file.link_target).lexically_normal();
  if (!host::is_within(target.native(), "/run") || target == "/run") return;
  plan.files.push_back({target.native().substr(1), std::move(text)});
}

Result<std::uint16_t> parse_port(std::string_view text, std::string_view whole) {
  const auto range = authority::PortRange::parse(text);
  if (!range || !range->is_single()) {
    return fail(Code::Invalid, "publish {}: '{}' is not a port", whole, text);
  }
  return range->first();
}

}  // namespace

std::string to_text(const Publication& publication) {
  return fmt::format("{}:{}:{}",
                     publication.address.family() == authority::Family::V6
                         ? fmt::format("[{}]", publication.address.to_text())
                         : publication.address.to_text(),
                     publication.outside, publication.inside);
}

Result<Publication> parse_publication(std::string_view text) {
  std::string_view ports = text;
  std::string_view address = "127.0.0.1";
  const std::size_t last = text.rfind(':');
  const std::size_t before =
      last == std::string_view::npos || last == 0 ? last : text.rfind(':', last - 1);
  if (last != std::string_view::npos && before != std::string_view::npos) {
    address = text.substr(0, before);
    ports.remove_prefix(before + 1);
    if (address.starts_with('[') && address.ends_with(']')) {
      address = address.substr(1, address.size() - 2);
    }
  }
  auto network = authority::IpNetwork::parse(address);
  if (!network || !network->is_single_address()) {
    return fail(Code::Invalid, "publish {}: '{}' is not an address of this host", text, address);
  }
  Publication published{*std::move(network)};
  const std::size_t colon = ports.find(':');
  const std::string_view inside = colon == std::string_view::npos ? ports : ports.substr(colon + 1);
  TRY(published.outside, parse_port(ports.substr(0, colon), text));
  TRY(published.inside, parse_port(inside, text));
  return published;
}

bool is_loopback(const authority::ListenAddress& address) {
  const auto* network = std::get_if<authority::IpNetwork>(&address);
  if (network == nullptr) return false;
  if (network->family() == authority::Family::V6) return network->to_text() == "::1";
  return network->bytes()[0] == 127 && network->prefix() >= 8;
}

Result<std::optional<NetworkPlan>> plan_network(const SandboxSpec& spec,
                                                const std::vector<Rule>& rules,
                                                const std::vector<Region>& regions,
                                                const host::HostFacts& facts) {
  const bool reaches_out = has_grant(spec, rules);
  const bool guards = needs_socket_guard(spec, rules, regions, facts);
  if (!reaches_out && !guards) return std::optional<NetworkPlan>();
  NetworkPlan plan;
  plan.authority = spec.authority;
  plan.published = spec.published;
  plan.resolver = spec.resolver;
  if (!reaches_out) plan.reach = Reach::OwnLoopback;
  if (facts.tier == host::Tier::User) plan.unix_calls = UnixCalls::CarryOut;
  if (guards) plan_socket_guard(regions, plan);
  for (const Rule& rule : rules) {
    plan.resolves = plan.resolves || needs_names(rule);
    if (needs_names(rule) && spec.loopback == Loopback::Down) {
      return fail(Code::Invalid,
                  "{}: names are looked up over the box's loopback (leave out --no-loopback, or "
                  "grant an address)",
                  authority::to_text(rule));
    }
  }
  return plan;
}

std::string network_rule_enforcement(const std::optional<NetworkPlan>& network, const Rule& rule) {
  if (!network || !network->reaches_out()) return std::string(kNoNetwork);
  if (rule.effect == Effect::Deny) return "empty network namespace, connect broker";
  return "connect broker";
}

NameFiles plan_name_files(const SandboxSpec& spec, const host::HostFacts& facts) {
  NameFiles plan;
  for (const host::NameFile& file : facts.name_files) {
    std::string text = file.path.ends_with("/hosts")         ? hosts_text(spec.hostname)
                       : file.path.ends_with("/resolv.conf") ? std::string(kResolverText)
                                                             : std::string(kSwitchText);
    if (!file.link_target.empty()) {
      place_linked(file, std::move(text), plan);
      continue;
    }
    const std::string name = fmt::format("names/{}", file.path.substr(file.path.rfind('/') + 1));
    plan.files.push_back({name, std::move(text)});
    plan.covers.push_back({Op::AttachCover, 0, 0, name, file.path.substr(1)});
  }
  return plan;
}

}  // namespace glovebox::plan
