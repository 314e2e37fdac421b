#include "egress/kernel/address.h"

#include "base/result.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace glovebox::egress {
namespace {

using authority::Family;
using authority::IpNetwork;

constexpr unsigned kV4Bits = 32;
constexpr unsigned kV6Bits = 128;

IpNetwork single(Family family, const IpNetwork::Bytes& bytes) {
  auto made = IpNetwork::make(family, bytes, family == Family::V4 ? kV4Bits : kV6Bits);
  GLOVEBOX_CHECK(made.has_value());
  return *std::move(made);
}

struct Block {
  const char* network;
  Range range;
};

// The first that holds an address decides. What is in none is public.
constexpr Block kBlocks[] = {
    {"0.0.0.0/8", Range::Unspecified},
    {"10.0.0.0/8", Range::Private},
    {"100.64.0.0/10", Range::Private},
    {"127.0.0.0/8", Range::Loopback},
    {"169.254.0.0/16", Range::LinkLocal},
    {"172.16.0.0/12", Range::Private},
    {"192.0.0.0/24", Range::Private},
    {"192.168.0.0/16", Range::Private},
    {"198.18.0.0/15", Range::Private},
    {"224.0.0.0/4", Range::Reserved},
    {"240.0.0.0/4", Range::Reserved},
    {"::/128", Range::Unspecified},
    {"::1/128", Range::Loopback},
    {"fd00:ec2::254/128", Range::LinkLocal},  // a cloud's credentials
    {"fc00::/7", Range::Private},
    {"fe80::/10", Range::LinkLocal},
    {"fec0::/10", Range::Private},
    {"ff00::/8", Range::Reserved},
    // Addresses with an IPv4 address inside: a second spelling of it, behind a translator.
    {"::/96", Range::Reserved},
    {"64:ff9b::/96", Range::Reserved},
    {"64:ff9b:1::/48", Range::Reserved},
    {"2002::/16", Range::Reserved},
    {"2001::/32", Range::Reserved},
};

struct ParsedBlock {
  IpNetwork network;
  Range range;
};

const std::vector<ParsedBlock>& blocks() {
  static const std::vector<ParsedBlock> parsed = [] {
    std::vector<ParsedBlock> list;
    for (const Block& block : kBlocks) {
      auto network = IpNetwork::parse(block.network);
      GLOVEBOX_CHECK(network.has_value());
      list.push_back({*std::move(network), block.range});
    }
    return list;
  }();
  return parsed;
}

bool lies_in(const IpNetwork& address, const IpNetwork& network) {
  if (address.family() != network.family()) return false;
  for (unsigned bit = 0; bit < network.prefix(); ++bit) {
    const unsigned shift = 7 - bit % 8;
    if ((address.bytes()[bit / 8] >> shift & 1U) != (network.bytes()[bit / 8] >> shift & 1U)) {
      return false;
    }
  }
  return true;
}

const ParsedBlock* find_block(const IpNetwork& address) {
  const auto found = std::ranges::find_if(
      blocks(), [&](const ParsedBlock& block) { return lies_in(address, block.network); });
  return found == blocks().end() ? nullptr : &*found;
}

}  // namespace

std::string Endpoint::to_text() const {
  const bool v6 = address.family() == Family::V6;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", address.to_text(), v6 ? "]" : "", port);
}

IpNetwork address_of(const in_addr& bytes) {
  IpNetwork::Bytes raw{};
  std::memcpy(raw.data(), &bytes, sizeof(bytes));
  return single(Family::V4, raw);
}

IpNetwork address_of(const in6_addr& bytes) {
  IpNetwork::Bytes raw{};
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) {
    std::memcpy(raw.data(), bytes.s6_addr + 12, 4);
    return single(Family::V4, raw);
  }
  std::memcpy(raw.data(), &bytes, sizeof(bytes));
  return single(Family::V6, raw);
}

AddressOrError read_address(std::span<const std::byte> bytes, int domain) {
  sa_family_t family = AF_UNSPEC;
  if (bytes.size() < sizeof(family)) return {{}, EINVAL};
  std::memcpy(&family, bytes.data(), sizeof(family));
  if (family == AF_UNSPEC) return {};
  if (family != domain) return {{}, EAFNOSUPPORT};
  if (family == AF_INET) {
    sockaddr_in in{};
    if (bytes.size() < sizeof(in)) return {{}, EINVAL};
    std::memcpy(&in, bytes.data(), sizeof(in));
    return {{family, Endpoint{address_of(in.sin_addr), ntohs(in.sin_port)}, 0}, 0};
  }
  if (family != AF_INET6) return {{}, EAFNOSUPPORT};
  sockaddr_in6 in6{};
  constexpr std::size_t kWithoutScope = offsetof(sockaddr_in6, sin6_scope_id);
  if (bytes.size() < kWithoutScope) return {{}, EINVAL};
  std::memcpy(&in6, bytes.data(), std::min(bytes.size(), sizeof(in6)));
  return {{family, Endpoint{address_of(in6.sin6_addr), ntohs(in6.sin6_port)}, in6.sin6_scope_id},
          0};
}

RawAddress raw_address(const Endpoint& endpoint, int domain) {
  RawAddress raw;
  const IpNetwork::Bytes& bytes = endpoint.address.bytes();
  const bool v4 = endpoint.address.family() == Family::V4;
  if (domain == AF_INET) {
    GLOVEBOX_CHECK(v4);
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    std::memcpy(&in.sin_addr, bytes.data(), sizeof(in.sin_addr));
    std::memcpy(&raw.storage, &in, sizeof(in));
    raw.length = sizeof(in);
    return raw;
  }
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(endpoint.port);
  if (v4) {
    in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
    std::memcpy(in6.sin6_addr.s6_addr + 12, bytes.data(), 4);
  } else {
    std::memcpy(&in6.sin6_addr, bytes.data(), sizeof(in6.sin6_addr));
  }
  std::memcpy(&raw.storage, &in6, sizeof(in6));
  raw.length = sizeof(in6);
  return raw;
}

std::optional<Endpoint> endpoint_of(const sockaddr_storage& storage) {
  const auto read = read_address(std::as_bytes(std::span(&storage, 1)), storage.ss_family);
  return read.address.endpoint;
}

Range range_of(const IpNetwork& address) {
  const ParsedBlock* block = find_block(address);
  return block == nullptr ? Range::Public : block->range;
}

unsigned block_prefix(const IpNetwork& address) {
  const ParsedBlock* block = find_block(address);
  return block == nullptr ? 0 : block->network.prefix();
}

std::string_view to_text(Range range) {
  switch (range) {
    case Range::Public: return "public";
    case Range::Private: return "private";
    case Range::Loopback: return "loopback";
    case Range::LinkLocal: return "link-local";
    case Range::Unspecified: return "unspecified";
    case Range::Reserved: return "reserved";
  }
  return "unknown";
}

}  // namespace glovebox::egress
