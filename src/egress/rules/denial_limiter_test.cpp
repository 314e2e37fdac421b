#include "egress/rules/denial_limiter.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace glovebox::egress {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Denied denied(int port) {
  return {Denied::Act::Connect, fmt::format("192.0.2.1:{}", port), "", "no rule grants it"};
}

TEST(DenialGate, TheSameIsToldOnceInAWhileWithHowOften) {
  DenialGate gate;
  const auto start = DenialGate::Clock::now();
  EXPECT_EQ(gate.take(denied(1), start), 1U);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(gate.take(denied(1), start + milliseconds(i)), 0U);
  EXPECT_EQ(gate.take(denied(2), start + milliseconds(500)), 1U) << "another is told at once";
  EXPECT_EQ(gate.take(denied(1), start + seconds(1)), 501U);
  EXPECT_EQ(gate.take(denied(1), start + seconds(3)), 1U);
}

TEST(DenialGate, DifferentOnesComeNoFasterThanTheBound) {
  DenialGate gate;
  const auto start = DenialGate::Clock::now();
  std::uint64_t told = 0;
  for (int i = 0; i < 100'000; ++i) {
    told += gate.take(denied(i), start + std::chrono::microseconds(100 * i)) > 0 ? 1U : 0U;
  }
  EXPECT_GE(told, 250U);  // 10 s of 20 a second, and those at once
  EXPECT_LE(told, 310U);
}

}  // namespace
}  // namespace glovebox::egress
