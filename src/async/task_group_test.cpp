#include "async/task_group.h"

#include "async/event.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace glovebox::session {
namespace {

struct Seen {
  int begun = 0;
  int canceled = 0;
  int destroyed = 0;
};

struct Destroyed {
  Seen& seen;
  ~Destroyed() { ++seen.destroyed; }
};

asio::awaitable<void> wait_for_ever(asio::io_context& loop, Seen& seen) {
  const Destroyed mark{seen};
  ++seen.begun;
  asio::steady_timer timer(loop, std::chrono::hours(1));
  const auto [problem] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  if (problem) ++seen.canceled;
}

asio::awaitable<void> fail_at_once(Seen& seen) {
  ++seen.begun;
  throw std::runtime_error("of one task");
  co_return;
}

asio::awaitable<void> join(TaskGroup& group, bool& is_joined) {
  co_await group.join();
  is_joined = true;
}

TEST(TaskGroup, JoinCancelsAndWaitsForAll) {
  asio::io_context loop;
  Seen seen;
  TaskGroup group(loop);
  group.spawn(wait_for_ever(loop, seen));
  group.spawn(wait_for_ever(loop, seen));
  loop.poll();
  EXPECT_EQ(seen.begun, 2);
  EXPECT_EQ(group.size(), 2u);
  bool is_joined = false;
  asio::co_spawn(loop, join(group, is_joined), [](const std::exception_ptr&) {});
  loop.restart();
  loop.run_for(std::chrono::seconds(20));
  EXPECT_TRUE(is_joined);
  EXPECT_EQ(seen.canceled, 2);
  EXPECT_EQ(seen.destroyed, 2);
  EXPECT_EQ(group.size(), 0u);
}

TEST(TaskGroup, NothingBeginsAfterAJoin) {
  asio::io_context loop;
  Seen seen;
  TaskGroup group(loop);
  bool is_joined = false;
  asio::co_spawn(loop, join(group, is_joined), [](const std::exception_ptr&) {});
  loop.run();
  ASSERT_TRUE(is_joined);
  group.spawn(wait_for_ever(loop, seen));
  loop.restart();
  loop.run();
  EXPECT_EQ(seen.begun, 0);
}

TEST(TaskGroup, AnExceptionEndsItsTaskAlone) {
  asio::io_context loop;
  Seen seen;
  TaskGroup group(loop);
  group.spawn(fail_at_once(seen));
  group.spawn(wait_for_ever(loop, seen));
  loop.poll();
  EXPECT_EQ(seen.begun, 2);
  EXPECT_EQ(group.size(), 1u);
}

TEST(TaskGroup, WithoutAJoinItsDestructorWaits) {
  asio::io_context loop;
  Seen seen;
  {
    TaskGroup group(loop);
    group.spawn(wait_for_ever(loop, seen));
    loop.poll();
    loop.stop();
    EXPECT_EQ(seen.destroyed, 0);
  }
  EXPECT_EQ(seen.canceled, 1);
  EXPECT_EQ(seen.destroyed, 1);
  EXPECT_TRUE(loop.stopped());
}

asio::awaitable<void> wait_for(asio::steady_timer& timer, Seen& seen) {
  const Destroyed mark{seen};
  (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

// What is still on its way to a task that has ended reaches nothing.
TEST(TaskGroup, ATaskThatEndsByItselfIsNotCancelledLater) {
  asio::io_context loop;
  Seen seen;
  asio::steady_timer timer(loop, std::chrono::hours(1));
  {
    TaskGroup group(loop);
    group.spawn(wait_for(timer, seen));
    loop.poll();
    timer.cancel();
    group.finish();
  }
  EXPECT_EQ(seen.destroyed, 1);
  loop.restart();
  loop.run();
}

}  // namespace
}  // namespace glovebox::session
