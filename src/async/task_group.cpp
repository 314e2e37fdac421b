#include "async/task_group.h"

#include "async/event.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace glovebox::session {

// Shared with the coroutines' completion handlers, which the loop may destroy after the group.
struct TaskGroup::State {
  explicit State(asio::io_context& loop) : changed(loop) {}
  std::vector<std::shared_ptr<asio::cancellation_signal>> tasks;
  Wakeup changed;
  bool is_closed = false;

  // From the loop alone: there the signal reaches the coroutine at once. One that comes after its
  // end reaches memory that is gone.
  void cancel() {
    // A copy: a task may end at once, and others with it.
    for (const auto& task : std::vector(tasks)) {
      const bool is_there = std::ranges::find(tasks, task) != tasks.end();
      if (is_there) task->emit(asio::cancellation_type::terminal);
    }
  }

  // In the completion handler of one task: it is over when this is called, and also when it is
  // destroyed with its loop.
  struct Token {
    Token(std::shared_ptr<State> group, std::shared_ptr<asio::cancellation_signal> task)
        : state(std::move(group)), signal(std::move(task)) {}
    Token(Token&&) = default;
    Token(const Token&) = delete;
    Token& operator=(Token&&) = delete;
    Token& operator=(const Token&) = delete;
    ~Token() {
      if (!state) return;
      std::erase(state->tasks, signal);
      state->changed.notify();
    }
    void operator()(const std::exception_ptr& /*problem*/) const {}

    std::shared_ptr<State> state;
    std::shared_ptr<asio::cancellation_signal> signal;
  };
};

TaskGroup::TaskGroup(asio::io_context& loop) : loop_(loop), state_(std::make_shared<State>(loop)) {}

void TaskGroup::finish() {
  state_->is_closed = true;
  if (state_->tasks.empty()) return;
  bool was_stopped = loop_.stopped();
  if (was_stopped) loop_.restart();
  asio::post(loop_, [state = state_] { state->cancel(); });
  while (!state_->tasks.empty()) {
    // A task is work of the loop, so it ends here only when a handler stops it.
    if (loop_.run_one() > 0) continue;
    was_stopped = true;
    loop_.restart();
  }
  if (was_stopped) loop_.stop();
}

void TaskGroup::spawn(asio::awaitable<void> task) {
  if (state_->is_closed) return;
  const auto signal = std::make_shared<asio::cancellation_signal>();
  state_->tasks.push_back(signal);
  asio::co_spawn(loop_, std::move(task),
                 asio::bind_cancellation_slot(signal->slot(), State::Token(state_, signal)));
}

std::size_t TaskGroup::size() const { return state_->tasks.size(); }

asio::awaitable<void> TaskGroup::join() {
  const std::shared_ptr<State> state = state_;
  state->is_closed = true;
  state->cancel();
  while (!state->tasks.empty()) (void)co_await state->changed.wait();
}

void spawn_owning(const asio::any_io_executor& loop, asio::awaitable<void> task) {
  asio::co_spawn(loop, std::move(task), asio::detached);
}

}  // namespace glovebox::session
