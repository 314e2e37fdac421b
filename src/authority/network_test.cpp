#include "authority/network.h"

#include <gtest/gtest.h>

namespace glovebox::authority {
namespace {

std::string host(std::string_view text) {
  const auto parsed = parse_host(text);
  return parsed ? to_text(*parsed) : "refused";
}

TEST(PortRange, TakesOnePortARangeOrAll) {
  EXPECT_EQ(PortRange::parse("443")->to_text(), "443");
  EXPECT_EQ(PortRange::parse("8000-8100")->to_text(), "8000-8100");
  EXPECT_EQ(PortRange::parse("80-80")->to_text(), "80");
  EXPECT_EQ(PortRange::parse("*")->to_text(), "*");
  EXPECT_EQ(*PortRange::parse("1-65535"), PortRange::all());
}

TEST(PortRange, RefusesOthers) {
  for (const char* text : {"", "0", "65536", "99999", "0-80", "80-65536", "81-80", "-80", "80-",
                           "80-81-82", " 80", "80 ", "+80", "http", "8e1", "80.0"}) {
    EXPECT_FALSE(PortRange::parse(text)) << text;
  }
}

TEST(IpNetwork, TakesAddressesAndNetworks) {
  EXPECT_EQ(host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(host("10.0.0.0/8"), "10.0.0.0/8");
  EXPECT_EQ(host("10.1.2.3/32"), "10.1.2.3");
  EXPECT_EQ(host("0.0.0.0/0"), "0.0.0.0/0");
  EXPECT_EQ(host("::/0"), "::/0");
}

TEST(IpNetwork, AllFormsOfOneIpv6AddressAreOne) {
  for (const char* text : {"::1", "0:0:0:0:0:0:0:1", "0000::0001", "[::1]", "::0.0.0.1"}) {
    EXPECT_EQ(host(text), "::1") << text;
  }
  EXPECT_EQ(host("2001:DB8::A"), host("2001:db8:0:0:0:0:0:a"));
}

TEST(IpNetwork, MappedIpv4IsIpv4) {
  EXPECT_EQ(host("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(host("::ffff:a00:1"), "10.0.0.1");
  EXPECT_EQ(host("::ffff:a00:0/104"), "10.0.0.0/8");
  EXPECT_EQ(host("::ffff:0:0/96"), "0.0.0.0/0");
}

TEST(IpNetwork, RefusesSecondSpellings) {
  for (const char* text :
       {"127.1",        "2130706433", "0x7f000001",   "0x7f.1",      "0177.0.0.1",
        "127.0.0.01",   "127.0.0.1.", "1.2.3",        "1.2.3.4.5",   "256.0.0.1",
        "fe80::1%eth0", "1::2::3",    ":::",          "10.0.0.1/8",  "10.0.0.0/33",
        "10.0.0.0/08",  "10.0.0.0/",  "10.0.0.0/8/8", "10.0.0.0/-1", "::/129",
        "fd00::1/8",    "[10.0.0.1]", "[::1",         "::1]",        "1.2.3.4%00"}) {
    EXPECT_EQ(host(text), "refused") << text;
  }
  EXPECT_EQ(host(std::string_view("10.0.0.1\0.evil", 14)), "refused");
  EXPECT_EQ(host(std::string_view("::1\0", 4)), "refused");
}

TEST(DomainPattern, HasOneSpelling) {
  EXPECT_EQ(host("API.Example.COM"), "api.example.com");
  EXPECT_EQ(host("example.com."), "example.com");
  EXPECT_EQ(host("*.Example.com"), "*.example.com");
  EXPECT_EQ(host("localhost"), "localhost");
  EXPECT_EQ(host("xn--bcher-kva.example"), "xn--bcher-kva.example");
  EXPECT_EQ(host("r3---sn-4g5e.example"), "r3---sn-4g5e.example");
  EXPECT_EQ(host("1e100.net"), "1e100.net");
  EXPECT_EQ(host("*"), "*");
  EXPECT_EQ(host("*."), "*.");
}

TEST(DomainPattern, RefusesOthers) {
  for (const char* text : {"",
                           ".",
                           "..",
                           ".example.com",
                           "example..com",
                           "example.com..",
                           "-a.com",
                           "a-.com",
                           "a_b.com",
                           "a b.com",
                           "*example.com",
                           "a.*.com",
                           "*.*.com",
                           "*.10",
                           "example.1",
                           "a.0x1f",
                           "bücher.example",
                           "ex%61mple.com",
                           "example.com/x",
                           "user@example.com",
                           "a。com",
                           "**"}) {
    EXPECT_EQ(host(text), "refused") << text;
  }
  EXPECT_EQ(host(std::string_view("evil\0.example.com", 17)), "refused");
  EXPECT_EQ(host("example.com\r\n"), "refused");
  EXPECT_EQ(host(std::string(64, 'a') + ".com"), "refused");
  EXPECT_EQ(host(std::string(63, 'a') + ".com"), std::string(63, 'a') + ".com");
  std::string long_name = "com";
  while (long_name.size() <= 253) long_name.insert(0, "abcdefg.");
  EXPECT_EQ(host(long_name), "refused");
}

TEST(DomainPattern, HintsAtTheALabel) {
  EXPECT_NE(parse_host("bücher.example").error().message.find("xn--"), std::string::npos);
}

TEST(ListenAddress, IsAnAddress) {
  EXPECT_EQ(to_text(*parse_listen_address("127.0.0.1")), "127.0.0.1");
  EXPECT_EQ(to_text(*parse_listen_address("*")), "*");
  EXPECT_FALSE(parse_listen_address("localhost"));
  EXPECT_FALSE(parse_listen_address("*."));
}

TEST(HostAndPorts, NeedBracketsForIpv6) {
  EXPECT_EQ(split_host_and_ports("[fd00::/8]:443")->host, "fd00::/8");
  EXPECT_EQ(split_host_and_ports("a.example:80-90")->ports, *PortRange::make(80, 90));
  EXPECT_EQ(join_host_and_ports("::1", *PortRange::make(80, 80)), "[::1]:80");
  EXPECT_EQ(join_host_and_ports("a.example", PortRange::all()), "a.example:*");
  for (const char* text : {"", "example.com", "::1:80", "[::1]80", "[::1]", "[a.example]:80",
                           "example.com:", ":", "a:b:80", "[::1]:80:81"}) {
    EXPECT_FALSE(split_host_and_ports(text)) << text;
  }
}

}  // namespace
}  // namespace glovebox::authority
