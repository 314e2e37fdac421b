#include "serve/replay_buffer.h"

#include <gtest/gtest.h>

namespace glovebox::serve {
namespace {

TEST(ReplayBuffer, GivesEventsOnceAndAgainAfterARewind) {
  ReplayBuffer buffer(1'000);
  buffer.add("id: 1\n\nid: 2\n\nid: 3\n\n");
  EXPECT_EQ(buffer.take(1'000), "id: 1\n\nid: 2\n\nid: 3\n\n");
  EXPECT_FALSE(buffer.has_unsent());
  ASSERT_TRUE(buffer.can_follow(1));
  buffer.rewind(1);
  EXPECT_EQ(buffer.take(1'000), "id: 2\n\nid: 3\n\n");
  EXPECT_EQ(buffer.take(1'000), "");
}

TEST(ReplayBuffer, TakesAtLeastOneAndNotMuchMoreThanAsked) {
  ReplayBuffer buffer(1'000);
  buffer.add("id: 1\n\nid: 2\n\nid: 3\n\n");
  EXPECT_EQ(buffer.take(1), "id: 1\n\n");
  EXPECT_EQ(buffer.take(14), "id: 2\n\nid: 3\n\n");
}

TEST(ReplayBuffer, DropsWhatWasSentAndNothingElse) {
  ReplayBuffer buffer(14);
  buffer.add("id: 1\n\nid: 2\n\nid: 3\n\n");
  EXPECT_TRUE(buffer.is_full());
  EXPECT_EQ(buffer.first_id(), 1U);  // no client has had any of it
  (void)buffer.take(7);
  EXPECT_EQ(buffer.first_id(), 2U);
  EXPECT_EQ(buffer.bytes(), 14U);
  EXPECT_FALSE(buffer.can_follow(0));
  EXPECT_TRUE(buffer.can_follow(1));
  EXPECT_TRUE(buffer.can_follow(3));   // the next that comes
  EXPECT_FALSE(buffer.can_follow(4));  // no such event was ever sent
}

// Of what was sent to a client that is gone, most can be sent again.
TEST(ReplayBuffer, LeavesRoomForWhatWasSent) {
  ReplayBuffer buffer(28);
  buffer.add("id: 1\n\nid: 2\n\nid: 3\n\n");
  (void)buffer.take(1'000);
  EXPECT_FALSE(buffer.is_full());
  buffer.add("id: 4\n\n");
  EXPECT_TRUE(buffer.is_full());
  EXPECT_TRUE(buffer.can_follow(0));
}

}  // namespace
}  // namespace glovebox::serve
