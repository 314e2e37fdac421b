#include "egress/long_calls.h"

#include <gtest/gtest.h>

namespace glovebox::egress {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
constexpr LongCalls::Time kNone{0};

TEST(LongCalls, OrdinaryOnesAreNotMeasured) {
  LongCalls calls;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(calls.measures());
    ASSERT_EQ(calls.rest_after(microseconds(60), std::nullopt), kNone);
  }
}

TEST(LongCalls, WhoKeepsMakingThemRestsLongerThanItWorks) {
  LongCalls calls;
  LongCalls::Time worked{0};
  LongCalls::Time rested{0};
  for (int i = 0; i < 1000; ++i) {
    // Short ones between them do not make the long ones forgotten.
    const bool is_long = i % 10 == 0;
    const LongCalls::Time took = is_long ? milliseconds(20) : milliseconds(0);
    const auto used = calls.measures() ? std::optional(took) : std::nullopt;
    worked += took;
    rested += calls.rest_after(took, used);
  }
  EXPECT_GT(rested, 2 * worked);
}

TEST(LongCalls, WaitingForAProcessorIsNoReason) {
  LongCalls calls;
  EXPECT_EQ(calls.rest_after(milliseconds(30), std::nullopt), kNone);
  EXPECT_TRUE(calls.measures());
  EXPECT_EQ(calls.rest_after(milliseconds(30), microseconds(80)), kNone);
  EXPECT_EQ(calls.rest_after(milliseconds(30), milliseconds(5)), milliseconds(15));
}

TEST(LongCalls, AreForgottenAfterAWhile) {
  LongCalls calls;
  (void)calls.rest_after(milliseconds(2), std::nullopt);
  for (int i = 0; i < LongCalls::kMeasured; ++i) {
    ASSERT_TRUE(calls.measures());
    (void)calls.rest_after(microseconds(60), microseconds(50));
  }
  EXPECT_FALSE(calls.measures());
}

}  // namespace
}  // namespace glovebox::egress
