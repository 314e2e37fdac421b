#include "session/layers/layer_remover.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace glovebox::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Removals that wait until they are let go.
class Gate {
 public:
  LayerRemover::Remove remover() {
    return [this](const std::string& id) {
      std::unique_lock lock(mutex_);
      ++begun_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_open_; });
      removed_.push_back(id);
      return id != "stays";
    };
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void await_begun(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }
  std::vector<std::string> removed() {
    const std::scoped_lock lock(mutex_);
    return removed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  std::size_t begun_ = 0;
  std::vector<std::string> removed_;
};

struct Taken {
  bool is_done = false;
};

asio::awaitable<void> bring(LayerRemover& remover, std::vector<std::string> ids, Taken& taken) {
  co_await remover.take(std::move(ids));
  taken.is_done = true;
}

asio::awaitable<void> drain(LayerRemover& remover, std::chrono::milliseconds patience,
                            Taken& taken) {
  co_await remover.drain(patience);
  taken.is_done = true;
}

void run_ready(asio::io_context& loop) {
  loop.restart();
  loop.poll();
}

void run_until(asio::io_context& loop, const Taken& taken) {
  loop.restart();
  // Something is always under way while it is not done: a thread of the remover, or a timer.
  const auto guard = asio::make_work_guard(loop);
  while (!taken.is_done) loop.run_one();
}

TEST(LayerRemover, NobodyWaitsForARemoval) {
  asio::io_context loop;
  Gate gate;
  LayerRemover remover(loop, gate.remover(), {.threads = 1, .pending = 4});
  Taken taken;
  asio::co_spawn(loop, bring(remover, {"a", "b"}, taken), asio::detached);
  run_ready(loop);
  EXPECT_TRUE(taken.is_done);
  EXPECT_EQ(remover.pending(), 2u);
  EXPECT_THAT(gate.removed(), IsEmpty());
  gate.open();
  Taken drained;
  asio::co_spawn(loop, drain(remover, std::chrono::hours(1), drained), asio::detached);
  run_until(loop, drained);
  EXPECT_EQ(remover.pending(), 0u);
  EXPECT_THAT(gate.removed(), ElementsAre("a", "b"));
  EXPECT_THAT(remover.take_left(), IsEmpty());
}

TEST(LayerRemover, WhoBringsMoreThanFitsWaitsForAnotherToBeGone) {
  asio::io_context loop;
  Gate gate;
  LayerRemover remover(loop, gate.remover(), {.threads = 2, .pending = 2});
  Taken first;
  Taken second;
  asio::co_spawn(loop, bring(remover, {"a", "b"}, first), asio::detached);
  asio::co_spawn(loop, bring(remover, {"c"}, second), asio::detached);
  run_ready(loop);
  EXPECT_TRUE(first.is_done);
  EXPECT_FALSE(second.is_done);
  EXPECT_EQ(remover.pending(), 2u);
  gate.open();
  run_until(loop, second);
  Taken drained;
  asio::co_spawn(loop, drain(remover, std::chrono::hours(1), drained), asio::detached);
  run_until(loop, drained);
  EXPECT_THAT(gate.removed(), UnorderedElementsAre("a", "b", "c"));
}

TEST(LayerRemover, WhatCannotBeRemovedIsHandedBackOnce) {
  asio::io_context loop;
  Gate gate;
  gate.open();
  LayerRemover remover(loop, gate.remover(), {.threads = 1, .pending = 4});
  Taken taken;
  asio::co_spawn(loop, bring(remover, {"a", "stays"}, taken), asio::detached);
  run_ready(loop);
  Taken drained;
  asio::co_spawn(loop, drain(remover, std::chrono::hours(1), drained), asio::detached);
  run_until(loop, drained);
  EXPECT_THAT(remover.take_left(), ElementsAre("stays"));
  EXPECT_THAT(remover.take_left(), IsEmpty());
}

TEST(LayerRemover, AnEndWaitsOnlySoLongAndLeavesTheRest) {
  asio::io_context loop;
  Gate gate;
  std::thread later;
  {
    LayerRemover remover(loop, gate.remover(), {.threads = 1, .pending = 4});
    Taken taken;
    asio::co_spawn(loop, bring(remover, {"a", "b", "c"}, taken), asio::detached);
    run_ready(loop);
    gate.await_begun(1);
    Taken drained;
    asio::co_spawn(loop, drain(remover, std::chrono::milliseconds(1), drained), asio::detached);
    run_until(loop, drained);
    EXPECT_EQ(remover.pending(), 3u);
    later = std::thread([&gate] { gate.open(); });
  }
  later.join();
  EXPECT_THAT(gate.removed(), testing::Contains("a")) << "one that has begun is waited for";
}

}  // namespace
}  // namespace glovebox::session
