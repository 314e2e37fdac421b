#include "egress/dns/dns_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace glovebox::egress {
namespace {

using authority::Family;
using std::chrono::seconds;

const Pins::Clock::time_point kStart{};

authority::IpNetwork ip(const char* text) { return *authority::IpNetwork::parse(text); }

TEST(Pins, AnAnswerHoldsForItsTime) {
  Pins pins;
  pins.add("a.example", Family::V4, {ip("192.0.2.1"), ip("192.0.2.2")}, 300, kStart);
  EXPECT_NE(pins.find("a.example", Family::V4, kStart + seconds(299)), nullptr);
  EXPECT_EQ(pins.find("a.example", Family::V4, kStart + seconds(300)), nullptr);
  EXPECT_EQ(pins.find("a.example", Family::V6, kStart), nullptr);
  EXPECT_EQ(pins.names_of(ip("192.0.2.2"), kStart), std::vector<std::string>{"a.example"});
  EXPECT_TRUE(pins.names_of(ip("192.0.2.2"), kStart + seconds(300)).empty());
  EXPECT_TRUE(pins.names_of(ip("192.0.2.3"), kStart).empty());
}

TEST(Pins, NoAnswerIsShorterThanAConnectTakes) {
  Pins pins;
  pins.add("a.example", Family::V4, {ip("192.0.2.1")}, 0, kStart);
  EXPECT_NE(pins.find("a.example", Family::V4, kStart + Pins::kShortest - seconds(1)), nullptr);
  EXPECT_EQ(pins.find("a.example", Family::V4, kStart + Pins::kShortest), nullptr);
}

TEST(Pins, LatestNameComesFirst) {
  Pins pins;
  pins.add("old.example", Family::V4, {ip("192.0.2.1")}, 300, kStart);
  pins.add("new.example", Family::V4, {ip("192.0.2.1")}, 300, kStart);
  EXPECT_EQ(pins.names_of(ip("192.0.2.1"), kStart),
            (std::vector<std::string>{"new.example", "old.example"}));
}

TEST(Pins, AreBounded) {
  Pins pins;
  for (std::size_t i = 0; i < Pins::kMost + 10; ++i) {
    pins.add(fmt::format("n{}.example", i), Family::V4, {ip("192.0.2.1")}, 300, kStart);
  }
  EXPECT_EQ(pins.size(), Pins::kMost);
  EXPECT_EQ(pins.find("n0.example", Family::V4, kStart), nullptr);
}

}  // namespace
}  // namespace glovebox::egress
