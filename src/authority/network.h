// Hosts and ports as a grant names them: addresses, networks, domain names and patterns of names.
//
// What an attacker wants here is a second spelling: a host that the check reads as one thing and
// the dialler as another. So every form has one spelling after parsing, and text that some
// resolver would read differently ("127.1", "0x7f.0.0.1", a zone, a NUL) is refused.
#pragma once

#include "authority/reach.h"
#include "base/result.h"

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace glovebox::authority {

// An inclusive range of TCP ports within 1-65535.
class PortRange {
 public:
  static constexpr std::uint16_t kFirst = 1;
  static constexpr std::uint16_t kLast = 65535;

  static Result<PortRange> make(std::uint64_t first, std::uint64_t last);
  // "443", "8000-8100" or "*" for all.
  static Result<PortRange> parse(std::string_view text);
  static PortRange all() { return {kFirst, kLast}; }

  std::uint16_t first() const { return first_; }
  std::uint16_t last() const { return last_; }
  bool is_single() const { return first_ == last_; }
  std::string to_text() const;

  friend std::strong_ordering operator<=>(const PortRange&, const PortRange&) = default;

 private:
  PortRange(std::uint16_t first, std::uint16_t last) : first_(first), last_(last) {}

  std::uint16_t first_;
  std::uint16_t last_;
};

enum class Family : std::uint8_t { V4, V6 };

// An address or a network (an address is a network of one). Bits past the prefix are zero; text
// that has some set ("10.0.0.1/8") is refused, since it shows that its writer meant something else.
//
// An IPv4-mapped IPv6 form is the IPv4 one: "::ffff:10.0.0.1" parses to 10.0.0.1 and
// "::ffff:a00:0/104" to 10.0.0.0/8. Wider IPv6 networks, "::/0" too, speak of IPv6 proper and
// reach no IPv4 address in that disguise.
class IpNetwork {
 public:
  using Bytes = std::array<std::uint8_t, 16>;  // network order; IPv4 uses the first four

  static Result<IpNetwork> parse(std::string_view text);
  static Result<IpNetwork> make(Family family, const Bytes& bytes, unsigned prefix);

  Family family() const { return family_; }
  const Bytes& bytes() const { return bytes_; }
  unsigned prefix() const { return prefix_; }
  bool is_single_address() const;
  // "10.0.0.0/8", "::1"; IPv6 in the short form of RFC 5952.
  std::string to_text() const;

  friend std::strong_ordering operator<=>(const IpNetwork&, const IpNetwork&) = default;

 private:
  IpNetwork(Family family, const Bytes& bytes, unsigned prefix)
      : family_(family), bytes_(bytes), prefix_(static_cast<std::uint8_t>(prefix)) {}

  Family family_;
  Bytes bytes_;
  std::uint8_t prefix_;
};

// A domain name, or a pattern of names.
//
//   example.com      that name alone
//   *.example.com    every name below it, at any depth; not example.com itself
//   *                every name
//
// Names are kept in lower case without the final dot. Only letters, digits and inner hyphens are
// taken, so an internationalised name is written as its A-label ("xn--bcher-kva.example"): no
// Unicode tables live here, and two spellings of one name cannot differ. A name whose last label is
// a number is refused, because resolvers read "127.1" and "0x7f.1" as addresses.
class DomainPattern {
 public:
  static Result<DomainPattern> parse(std::string_view text);

  // Without the "*."; empty for the pattern of every name.
  const std::string& name() const { return name_; }
  Reach reach() const { return reach_; }
  std::string to_text() const;

  friend std::strong_ordering operator<=>(const DomainPattern&, const DomainPattern&) = default;

 private:
  DomainPattern(std::string name, Reach reach) : name_(std::move(name)), reach_(reach) {}

  std::string name_;
  Reach reach_;
};

// Every host: all addresses and all names.
struct AnyHost {
  friend std::strong_ordering operator<=>(const AnyHost&, const AnyHost&) = default;
};

// Names and addresses are different things: a grant on a name does not reach an address typed in
// by the program, even one the name resolves to, and a grant on a network reaches no name.
using HostPattern = std::variant<AnyHost, IpNetwork, DomainPattern>;
using ListenAddress = std::variant<AnyHost, IpNetwork>;

// "*" is every host; "*." is every name and no bare address. Brackets around IPv6 are accepted.
Result<HostPattern> parse_host(std::string_view text);
Result<ListenAddress> parse_listen_address(std::string_view text);
std::string to_text(const HostPattern& host);
std::string to_text(const ListenAddress& address);

// "host:ports" taken apart; IPv6 needs brackets, around the prefix length too: "[fd00::/8]:443".
struct HostAndPorts {
  std::string_view host;
  PortRange ports;
};
Result<HostAndPorts> split_host_and_ports(std::string_view text);
// The inverse: adds the brackets where the host has colons.
std::string join_host_and_ports(std::string_view host, PortRange ports);

}  // namespace glovebox::authority
