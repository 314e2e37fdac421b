#include "session/layers/layer_remover.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <exception>
#include <utility>

namespace glovebox::session {

// Shared with what comes back from the threads, which may be after the remover is gone.
struct LayerRemover::State {
  explicit State(asio::io_context& loop) : changed(loop) {}
  std::size_t pending = 0;
  std::vector<std::string> left;
  Wakeup changed;
};

LayerRemover::LayerRemover(asio::io_context& loop, Remove remove, Bounds bounds)
    : loop_(loop),
      remove_(std::move(remove)),
      places_(std::make_shared<Semaphore>(loop, bounds.pending, "the removal of layers")),
      state_(std::make_shared<State>(loop)),
      pool_(bounds.threads) {}

LayerRemover::~LayerRemover() {
  pool_.stop();
  pool_.join();
}

asio::awaitable<void> LayerRemover::take(std::vector<std::string> ids) {
  for (std::string& id : ids) {
    auto turn = co_await places_->take(WhenBusy::Wait);
    if (turn) {
      begin(std::move(id), *std::move(turn));
    } else {
      state_->left.push_back(std::move(id));  // too many wait, or the caller was canceled
    }
  }
}

void LayerRemover::begin(std::string id, Turn turn) {
  ++state_->pending;
  asio::post(pool_, [&loop = loop_, remove = remove_, state = state_, id = std::move(id),
                     turn = std::move(turn)]() mutable {
    bool is_removed = false;
    try {
      is_removed = remove(id);
    } catch (const std::exception&) {
      is_removed = false;  // short of memory: tried again like any other failure
    }
    asio::post(loop, [state = std::move(state), id = std::move(id), turn = std::move(turn),
                      is_removed]() mutable {
      --state->pending;
      if (!is_removed) state->left.push_back(std::move(id));
      state->changed.notify();
    });
  });
}

std::vector<std::string> LayerRemover::take_left() { return std::exchange(state_->left, {}); }

std::size_t LayerRemover::pending() const { return state_->pending; }

asio::awaitable<void> LayerRemover::drain(std::chrono::milliseconds patience) {
  const std::shared_ptr<State> state = state_;
  asio::steady_timer timer(loop_, patience);
  // Not of this coroutine: a timer that has just run out calls back although it is destroyed.
  const auto is_late = std::make_shared<bool>(false);
  timer.async_wait([state, is_late](const boost::system::error_code& problem) {
    if (problem) return;
    *is_late = true;
    state->changed.notify();
  });
  while (state->pending > 0 && !*is_late) {
    const Woken woken = co_await state->changed.wait();
    if (woken == Woken::Canceled) co_return;
  }
}

}  // namespace glovebox::session
