#include "authority/network.h"

#include "base/plain_text.h"
#include "base/quantity.h"

#include <algorithm>
#include <cctype>

#include <arpa/inet.h>

namespace glovebox::authority {
namespace {

constexpr std::size_t kMaxNameBytes = 253;
constexpr std::size_t kMaxLabelBytes = 63;
constexpr unsigned kMappedPrefix = 96;  // ::ffff:0:0/96 holds the IPv4 addresses

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

unsigned family_bits(Family family) { return family == Family::V4 ? 32 : 128; }

bool is_mapped(const IpNetwork::Bytes& bytes) {
  const bool leading_zeros =
      std::all_of(bytes.begin(), bytes.begin() + 10, [](std::uint8_t byte) { return byte == 0; });
  return leading_zeros && bytes[10] == 0xff && bytes[11] == 0xff;
}

bool has_bits_past(const IpNetwork::Bytes& bytes, unsigned prefix) {
  for (unsigned bit = prefix; bit < 8 * bytes.size(); ++bit) {
    if ((bytes[bit / 8] >> (7 - bit % 8) & 1U) != 0) return true;
  }
  return false;
}

// Digits, dots, colons and a slash: what an address or network is made of, and no name of ours.
bool looks_like_address(std::string_view text) {
  if (text.find(':') != std::string_view::npos) return true;
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return is_digit(c) || c == '.' || c == '/'; });
}

Result<unsigned> parse_prefix(std::string_view digits, std::string_view whole) {
  const bool is_number =
      !digits.empty() && digits.size() <= 3 && std::all_of(digits.begin(), digits.end(), is_digit);
  const bool has_zero_in_front = digits.size() > 1 && digits.front() == '0';
  if (!is_number || has_zero_in_front) {
    return fail(Code::Invalid, "network {}: the prefix length is not a number", quoted(whole));
  }
  TRY(const std::uint64_t prefix, parse_count(digits));
  return static_cast<unsigned>(prefix);
}

// A resolver takes a name that ends in a number ("1.2.3", "0x7f.1") for an address.
bool ends_in_number(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (last.starts_with("0x")) return std::all_of(last.begin() + 2, last.end(), is_hex_digit);
  return std::all_of(last.begin(), last.end(), is_digit);
}

Result<void> check_label(std::string_view label, std::string_view whole) {
  if (label.empty() || label.size() > kMaxLabelBytes) {
    return fail(Code::Invalid, "host {}: a label must have 1 to {} letters", quoted(whole),
                kMaxLabelBytes);
  }
  for (const char c : label) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      return fail(Code::Invalid, "host {}: not ASCII (write its A-label, 'xn--...')",
                  quoted(whole));
    }
    if (c == '*') {
      return fail(Code::Invalid, "host {}: a pattern has the form '*.example.com'", quoted(whole));
    }
    if (!is_lower(c) && !is_digit(c) && c != '-') {
      return fail(Code::Invalid, "host {}: only letters, digits and hyphens make a name",
                  quoted(whole));
    }
  }
  if (label.front() == '-' || label.back() == '-') {
    return fail(Code::Invalid, "host {}: a label cannot start or end with a hyphen", quoted(whole));
  }
  return {};
}

Result<void> check_name(std::string_view name, std::string_view whole) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return fail(Code::Invalid, "host {}: a name has 1 to {} bytes", quoted(whole), kMaxNameBytes);
  }
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    TRY_VOID(check_label(name.substr(at, dot - at), whole));
    at = dot + 1;
  }
  if (ends_in_number(name)) {
    return fail(Code::Invalid, "host {}: ends in a number but is no address (write all four parts)",
                quoted(whole));
  }
  return {};
}

}  // namespace

Result<PortRange> PortRange::make(std::uint64_t first, std::uint64_t last) {
  if (first < kFirst || last > kLast) {
    return fail(Code::Invalid, "ports {}-{}: outside {}-{}", first, last, kFirst, kLast);
  }
  if (first > last) return fail(Code::Invalid, "ports {}-{}: the range is empty", first, last);
  return PortRange(static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last));
}

Result<PortRange> PortRange::parse(std::string_view text) {
  if (text == "*") return all();
  const std::size_t hyphen = text.find('-');
  const auto first = parse_count(text.substr(0, hyphen));
  const auto last = hyphen == std::string_view::npos ? first : parse_count(text.substr(hyphen + 1));
  if (!first || !last) {
    return fail(Code::Invalid, "ports {}: write '443', '8000-8100' or '*'", quoted(text));
  }
  return make(*first, *last);
}

std::string PortRange::to_text() const {
  if (*this == all()) return "*";
  return is_single() ? fmt::format("{}", first_) : fmt::format("{}-{}", first_, last_);
}

Result<IpNetwork> IpNetwork::make(Family family, const Bytes& bytes, unsigned prefix) {
  if (prefix > family_bits(family)) {
    return fail(Code::Invalid, "network: a prefix of {} bits is too long", prefix);
  }
  if (has_bits_past(bytes, prefix)) {
    return fail(Code::Invalid, "network: bits are set past the prefix of {} bits", prefix);
  }
  if (family == Family::V6 && prefix >= kMappedPrefix && is_mapped(bytes)) {
    Bytes v4{};
    std::copy(bytes.begin() + 12, bytes.end(), v4.begin());
    return IpNetwork(Family::V4, v4, prefix - kMappedPrefix);
  }
  return IpNetwork(family, bytes, prefix);
}

Result<IpNetwork> IpNetwork::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  const Family family = address.find(':') == std::string::npos ? Family::V4 : Family::V6;
  const int os_family = family == Family::V4 ? AF_INET : AF_INET6;
  Bytes bytes{};
  // inet_pton stops at a NUL, so text that has one is refused before it is asked.
  if (address.find('\0') != std::string::npos ||
      inet_pton(os_family, address.c_str(), bytes.data()) != 1) {
    return fail(Code::Invalid, "address {}: neither IPv4 nor IPv6 (no zones, all four parts)",
                quoted(text));
  }
  unsigned prefix = family_bits(family);
  if (slash != std::string_view::npos) {
    TRY(prefix, parse_prefix(text.substr(slash + 1), text));
  }
  auto network = make(family, bytes, prefix);
  if (!network) return fail(Code::Invalid, "{}: {}", quoted(text), network.error().message);
  return network;
}

bool IpNetwork::is_single_address() const { return prefix_ == family_bits(family_); }

std::string IpNetwork::to_text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int os_family = family_ == Family::V4 ? AF_INET : AF_INET6;
  GLOVEBOX_CHECK(inet_ntop(os_family, bytes_.data(), text.data(), text.size()) != nullptr);
  if (is_single_address()) return text.data();
  return fmt::format("{}/{}", text.data(), prefix_);
}

Result<DomainPattern> DomainPattern::parse(std::string_view text) {
  if (text == "*") return DomainPattern("", Reach::Below);
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(), to_lower);
  const Reach reach = name.starts_with("*.") ? Reach::Below : Reach::Exact;
  if (reach == Reach::Below) name.erase(0, 2);
  if (name.ends_with('.')) name.pop_back();
  TRY_VOID(check_name(name, text));
  return DomainPattern(std::move(name), reach);
}

std::string DomainPattern::to_text() const {
  if (reach_ == Reach::Exact) return name_;
  return name_.empty() ? "*" : "*." + name_;
}

Result<HostPattern> parse_host(std::string_view text) {
  if (text == "*") return HostPattern(AnyHost{});
  if (text == "*.") {
    TRY(DomainPattern every_name, DomainPattern::parse("*"));
    return HostPattern(std::move(every_name));
  }
  if (text.starts_with('[') && text.ends_with(']') && text.find(':') != std::string_view::npos) {
    text = text.substr(1, text.size() - 2);
  }
  if (looks_like_address(text)) {
    TRY(const IpNetwork network, IpNetwork::parse(text));
    return HostPattern(network);
  }
  TRY(DomainPattern domain, DomainPattern::parse(text));
  return HostPattern(std::move(domain));
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  TRY(const HostPattern host, parse_host(text));
  if (std::holds_alternative<DomainPattern>(host)) {
    return fail(Code::Invalid, "listen on {}: needs an address, not a name (such as 127.0.0.1)",
                quoted(text));
  }
  if (const auto* network = std::get_if<IpNetwork>(&host)) return ListenAddress(*network);
  return ListenAddress(AnyHost{});
}

std::string to_text(const HostPattern& host) {
  if (const auto* network = std::get_if<IpNetwork>(&host)) return network->to_text();
  const auto* domain = std::get_if<DomainPattern>(&host);
  if (domain == nullptr) return "*";
  return domain->name().empty() ? "*." : domain->to_text();
}

std::string to_text(const ListenAddress& address) {
  const auto* network = std::get_if<IpNetwork>(&address);
  return network == nullptr ? "*" : network->to_text();
}

Result<HostAndPorts> split_host_and_ports(std::string_view text) {
  const bool in_brackets = text.starts_with('[');
  const std::size_t colon = in_brackets ? text.find("]:") : text.find(':');
  if (colon == std::string_view::npos) {
    return fail(Code::Invalid, "address {}: write 'host:port'", quoted(text));
  }
  const std::string_view host = in_brackets ? text.substr(1, colon - 1) : text.substr(0, colon);
  const std::string_view ports = text.substr(colon + (in_brackets ? 2 : 1));
  if (!in_brackets && ports.find(':') != std::string_view::npos) {
    return fail(Code::Invalid, "address {}: IPv6 needs brackets, '[::1]:443'", quoted(text));
  }
  if (in_brackets && host.find(':') == std::string_view::npos) {
    return fail(Code::Invalid, "address {}: brackets are for IPv6 only", quoted(text));
  }
  TRY(const PortRange range, PortRange::parse(ports));
  return HostAndPorts{host, range};
}

std::string join_host_and_ports(std::string_view host, PortRange ports) {
  const bool needs_brackets = host.find(':') != std::string_view::npos;
  return needs_brackets ? fmt::format("[{}]:{}", host, ports.to_text())
                        : fmt::format("{}:{}", host, ports.to_text());
}

}  // namespace glovebox::authority
