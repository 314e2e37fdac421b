#include "egress/kernel/address.h"

#include <gtest/gtest.h>

#include <cstring>

#include <arpa/inet.h>

namespace glovebox::egress {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

sockaddr_in v4(const char* text, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, text, &in.sin_addr), 1);
  return in;
}

sockaddr_in6 v6(const char* text, std::uint16_t port) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET6, text, &in.sin6_addr), 1);
  return in;
}

TEST(ReadAddress, TakesWhatFitsTheSocket) {
  const auto read = read_address(bytes_of(v4("192.0.2.1", 443)), AF_INET);
  ASSERT_EQ(read.error, 0);
  EXPECT_EQ(read.address.endpoint->to_text(), "192.0.2.1:443");
  const auto read6 = read_address(bytes_of(v6("2001:db8::1", 80)), AF_INET6);
  ASSERT_EQ(read6.error, 0);
  EXPECT_EQ(read6.address.endpoint->to_text(), "[2001:db8::1]:80");
}

TEST(ReadAddress, MappedIsTheIPv4Address) {
  const auto read = read_address(bytes_of(v6("::ffff:169.254.169.254", 80)), AF_INET6);
  ASSERT_EQ(read.error, 0);
  EXPECT_EQ(read.address.endpoint->to_text(), "169.254.169.254:80");
  EXPECT_EQ(range_of(read.address.endpoint->address), Range::LinkLocal);
}

TEST(ReadAddress, RefusesAsTheKernelDoes) {
  const sockaddr_in in = v4("192.0.2.1", 443);
  EXPECT_EQ(read_address(bytes_of(in), AF_INET6).error, EAFNOSUPPORT);
  EXPECT_EQ(read_address(bytes_of(v6("::1", 1)), AF_INET).error, EAFNOSUPPORT);
  EXPECT_EQ(read_address(bytes_of(in).subspan(0, 15), AF_INET).error, EINVAL);
  EXPECT_EQ(read_address(bytes_of(in).subspan(0, 1), AF_INET).error, EINVAL);
  EXPECT_EQ(read_address({}, AF_INET).error, EINVAL);
  EXPECT_EQ(read_address(bytes_of(v6("::1", 1)).subspan(0, 23), AF_INET6).error, EINVAL);
}

TEST(ReadAddress, UnspecifiedFamilyHasNoEndpoint) {
  sockaddr_in in = v4("192.0.2.1", 443);
  in.sin_family = AF_UNSPEC;
  const auto read = read_address(bytes_of(in), AF_INET);
  EXPECT_EQ(read.error, 0);
  EXPECT_FALSE(read.address.endpoint);
}

TEST(RawAddress, IsTheSameEndpointAgain) {
  for (const char* text : {"192.0.2.1", "127.0.0.1"}) {
    const Endpoint endpoint{*authority::IpNetwork::parse(text), 8080};
    for (const int domain : {AF_INET, AF_INET6}) {
      EXPECT_EQ(endpoint_of(raw_address(endpoint, domain).storage), endpoint);
    }
  }
}

TEST(Ranges, AreWhatTheyShouldBe) {
  const std::pair<const char*, Range> known[] = {
      {"8.8.8.8", Range::Public},
      {"172.32.0.1", Range::Public},
      {"11.0.0.0", Range::Public},
      {"2606:4700::1", Range::Public},
      {"10.255.255.255", Range::Private},
      {"172.16.0.1", Range::Private},
      {"172.31.255.255", Range::Private},
      {"192.168.0.1", Range::Private},
      {"100.64.0.1", Range::Private},
      {"fd12::1", Range::Private},
      {"127.0.0.1", Range::Loopback},
      {"127.255.0.1", Range::Loopback},
      {"::1", Range::Loopback},
      {"169.254.169.254", Range::LinkLocal},
      {"fe80::1", Range::LinkLocal},
      {"fd00:ec2::254", Range::LinkLocal},
      {"0.0.0.0", Range::Unspecified},
      {"0.1.2.3", Range::Unspecified},
      {"::", Range::Unspecified},
      {"224.0.0.1", Range::Reserved},
      {"255.255.255.255", Range::Reserved},
      {"64:ff9b::7f00:1", Range::Reserved},
      {"2002:7f00:1::", Range::Reserved},
      {"::7f00:1", Range::Reserved},
  };
  for (const auto& [text, range] : known) {
    EXPECT_EQ(range_of(*authority::IpNetwork::parse(text)), range) << text;
  }
}

}  // namespace
}  // namespace glovebox::egress
