#include "egress/rules/connect_rate.h"

#include <gtest/gtest.h>

#include <limits>

namespace glovebox::egress {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Spent = ConnectRate::Spent;

constexpr ConnectRate::Clock::time_point kStart{std::chrono::hours(5)};

Endpoint place(const char* address, std::uint16_t port) {
  return {*authority::IpNetwork::parse(address), port};
}

// A different destination for each number.
Endpoint nth(std::size_t number) {
  return place(fmt::format("192.0.2.{}", number % 250).c_str(),
               static_cast<std::uint16_t>(1 + number / 250));
}

std::size_t spend_all(ConnectRate& rate, const Endpoint& to, ConnectRate::Clock::time_point now) {
  std::size_t count = 0;
  while (rate.spend(to, now) == Spent::Yes) ++count;
  return count;
}

TEST(ConnectRate, ASecondsWorthAtOnceAndThenAtThePace) {
  for (const std::uint64_t budget : {1U, 2U, 3U, 7U, 20U, 1000U}) {
    ConnectRate rate;
    rate.set(budget);
    const Endpoint to = place("192.0.2.1", 443);
    EXPECT_EQ(spend_all(rate, to, kStart), budget);
    // Never earlier than the budget has it, not by a part of a nanosecond.
    const nanoseconds pace((1'000'000'000 + budget - 1) / budget);
    EXPECT_EQ(rate.spend(to, kStart + pace - nanoseconds(1)), Spent::TooSoon) << budget;
    EXPECT_EQ(rate.spend(to, kStart + pace), Spent::Yes) << budget;
    EXPECT_EQ(rate.spend(to, kStart + pace), Spent::TooSoon) << budget;
    EXPECT_EQ(spend_all(rate, to, kStart + milliseconds(2500)), budget) << "no more than it holds";
  }
}

TEST(ConnectRate, AWholeMinuteGivesNoMoreThanTheBudgetHas) {
  for (const std::uint64_t budget : {3U, 7U, 30U}) {
    ConnectRate rate;
    rate.set(budget);
    const Endpoint to = place("192.0.2.1", 443);
    std::size_t count = 0;
    for (milliseconds at{0}; at < std::chrono::minutes(1); at += milliseconds(1)) {
      if (rate.spend(to, kStart + at) == Spent::Yes) ++count;
    }
    EXPECT_LE(count, budget + 60 * budget);
    EXPECT_GE(count, budget + 59 * budget - 1);
  }
}

TEST(ConnectRate, EachAddressAndPortHasItsOwn) {
  ConnectRate rate;
  rate.set(2);
  EXPECT_EQ(spend_all(rate, place("192.0.2.1", 443), kStart), 2U);
  EXPECT_EQ(spend_all(rate, place("192.0.2.1", 80), kStart), 2U);
  EXPECT_EQ(spend_all(rate, place("192.0.2.2", 443), kStart), 2U);
  EXPECT_EQ(spend_all(rate, place("2001:db8::1", 443), kStart), 2U);
  EXPECT_EQ(spend_all(rate, place("192.0.2.1", 443), kStart), 0U);
}

TEST(ConnectRate, WithoutABudgetNothingIsKept) {
  ConnectRate rate;
  for (std::size_t i = 0; i < 5000; ++i) ASSERT_EQ(rate.spend(nth(i), kStart), Spent::Yes);
  EXPECT_EQ(rate.destinations(), 0U);
}

TEST(ConnectRate, ManyDestinationsFillABoundedTable) {
  ConnectRate rate;
  rate.set(1);
  std::size_t taken = 0;
  for (std::size_t i = 0; i < 20'000; ++i) {
    const Spent spent = rate.spend(nth(i), kStart);
    if (spent == Spent::Yes) ++taken;
    const bool fits = i < ConnectRate::kMostDestinations;
    ASSERT_EQ(spent, fits ? Spent::Yes : Spent::TooManyDestinations);
    ASSERT_LE(rate.destinations(), ConnectRate::kMostDestinations);
  }
  EXPECT_EQ(taken, ConnectRate::kMostDestinations);
  EXPECT_EQ(rate.spend(nth(0), kStart), Spent::TooSoon) << "going round renews none of them";
  EXPECT_EQ(rate.spend(nth(15'000), kStart + std::chrono::seconds(1)), Spent::Yes)
      << "those that are full again make room";
}

// Room appears as soon as the first bucket is full, also that of one that came later than others
// that have more to get back.
TEST(ConnectRate, RoomIsFoundAsSoonAsThereIsSome) {
  ConnectRate rate;
  rate.set(10);
  for (std::size_t i = 0; i + 1 < ConnectRate::kMostDestinations; ++i) {
    ASSERT_EQ(spend_all(rate, nth(i), kStart), 10U);
  }
  ASSERT_EQ(rate.spend(nth(5000), kStart), Spent::Yes);
  EXPECT_EQ(rate.spend(nth(5001), kStart + milliseconds(99)), Spent::TooManyDestinations);
  EXPECT_EQ(rate.spend(nth(5002), kStart + milliseconds(101)), Spent::Yes);
  EXPECT_EQ(rate.spend(nth(5003), kStart + milliseconds(150)), Spent::TooManyDestinations);
  EXPECT_EQ(rate.spend(nth(5004), kStart + milliseconds(202)), Spent::Yes);
}

TEST(ConnectRate, ASmallerBudgetHoldsAtOnce) {
  ConnectRate rate;
  const Endpoint to = place("192.0.2.1", 443);
  rate.set(100);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(rate.spend(to, kStart), Spent::Yes);
  rate.set(1);
  EXPECT_EQ(rate.spend(to, kStart), Spent::TooSoon) << "what was spent counts";
  EXPECT_EQ(rate.spend(to, kStart + milliseconds(500)), Spent::Yes);
  EXPECT_EQ(rate.spend(to, kStart + milliseconds(1400)), Spent::TooSoon);
}

TEST(ConnectRate, TheLargestBudgetIsNoTrouble) {
  ConnectRate rate;
  rate.set(std::numeric_limits<std::int64_t>::max());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(rate.spend(nth(1), kStart), Spent::Yes);
}

}  // namespace
}  // namespace glovebox::egress
