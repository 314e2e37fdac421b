// Coroutines that their starter does not wait for at once.
//
// A coroutine that uses an object must not outlive it. So the object owns a TaskGroup, starts them
// there, and waits for all of them before it ends:
//
//   tasks_.spawn(keep_sweeping());
//   ...
//   co_await tasks_.join();
//
// A coroutine that owns all that it uses can run without an owner that waits for it:
// spawn_owning().
//
// An exception ends the coroutine that throws it, and nothing else. The loop's thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <cstddef>
#include <memory>

namespace glovebox::session {

namespace asio = boost::asio;

class TaskGroup {
 public:
  explicit TaskGroup(asio::io_context& loop);
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup() { finish(); }

  // Begins at once, up to its first wait. After join() it does not begin at all.
  void spawn(asio::awaitable<void> task);
  std::size_t size() const;

  // Cancels all of them (asio's cancellation: what they wait for ends with an error, and the next
  // co_await throws) and waits for their end. Work that a pool of threads does for them is not
  // interrupted. Not from one of them.
  asio::awaitable<void> join();

  // The same for an owner that is destroyed without a join(), while all that the coroutines use is
  // still there: runs the loop itself until they are over, so not from a callback of the loop.
  void finish();

 private:
  struct State;

  asio::io_context& loop_;
  std::shared_ptr<State> state_;
};

// Starts a coroutine whose parameters own everything that it uses: by value, or by shared_ptr.
void spawn_owning(const asio::any_io_executor& loop, asio::awaitable<void> task);

}  // namespace glovebox::session
