#include "egress/call_backoff.h"

#include <gtest/gtest.h>

namespace glovebox::egress {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
constexpr CallTime kNone{0};

TEST(LongCalls, OrdinaryOnesAreFollowedByNoRest) {
  EXPECT_EQ(rest_after(microseconds(60), microseconds(50)), kNone);
  EXPECT_EQ(rest_after(milliseconds(1), milliseconds(1)), kNone);
}

TEST(LongCalls, EveryLongOneIsFollowedByAMultipleOfItsUse) {
  EXPECT_EQ(rest_after(milliseconds(5), milliseconds(5)), milliseconds(15));
  EXPECT_EQ(rest_after(milliseconds(30), milliseconds(20)), milliseconds(60));
}

TEST(LongCalls, WaitingForAProcessorCountsWhenItIsLongAndOnce) {
  EXPECT_EQ(rest_after(milliseconds(9), microseconds(80)), kNone);
  EXPECT_EQ(rest_after(milliseconds(90), microseconds(80)), milliseconds(90));
  EXPECT_EQ(rest_after(milliseconds(90), milliseconds(5)), milliseconds(90));
}

}  // namespace
}  // namespace glovebox::egress
