// Addresses as programs hand them to connect(2) and bind(2), read strictly, and what kind of place
// they lead to.
//
// The bytes come from the memory of the box's program. They are read once; everything is decided
// and done with the value made here.
#pragma once

#include "authority/network.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>

namespace glovebox::egress {

// An address of the Internet and a port. An IPv4-mapped IPv6 address is the IPv4 one.
struct Endpoint {
  authority::IpNetwork address;  // of one
  std::uint16_t port = 0;

  // "192.0.2.1:443", "[2001:db8::1]:443".
  std::string to_text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

authority::IpNetwork address_of(const in_addr& bytes);
// A mapped one comes out as IPv4.
authority::IpNetwork address_of(const in6_addr& bytes);

// A sockaddr that was read. For AF_UNSPEC there is no endpoint.
struct ReadAddress {
  sa_family_t family = AF_UNSPEC;
  std::optional<Endpoint> endpoint;
  std::uint32_t scope = 0;  // of an IPv6 address
};

// The address in `bytes` for a socket of this domain, or the errno that the kernel would answer.
struct AddressOrError {
  ReadAddress address;
  int error = 0;
};
AddressOrError read_address(std::span<const std::byte> bytes, int domain);

// The sockaddr of an endpoint for a socket of this domain; IPv4 in an IPv6 socket is mapped.
struct RawAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
RawAddress raw_address(const Endpoint& endpoint, int domain);
std::optional<Endpoint> endpoint_of(const sockaddr_storage& storage);

// What kind of place an address names. All but Public are reached by a literal grant alone, never
// by way of a name.
enum class Range : std::uint8_t {
  Public,
  Private,      // of a site: 10.0.0.0/8, fc00::/7 and their like
  Loopback,     // of the host, or of the box
  LinkLocal,    // the neighbours, and where clouds keep their credentials
  Unspecified,  // 0.0.0.0 and ::, which the kernel takes for loopback
  Reserved,     // multicast, broadcast, addresses that carry another address
};
Range range_of(const authority::IpNetwork& address);
std::string_view to_text(Range range);

// The prefix length of the block of that range which the address lies in. A rule on a network at
// least as long speaks of that range and of nothing wider.
unsigned block_prefix(const authority::IpNetwork& address);

}  // namespace glovebox::egress
