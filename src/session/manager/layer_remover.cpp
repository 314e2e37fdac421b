#include "session/manager/layer_remover.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <exception>
#include <utility>

namespace glovebox::session {

// Shared with what comes back from the threads, which may be after the trash is gone.
struct LayerTrash::Book {
  explicit Book(asio::io_context& loop) : changed(loop) {}
  std::size_t pending = 0;
  std::vector<std::string> left;
  Wakeup changed;
};

LayerTrash::LayerTrash(asio::io_context& loop, Remove remove, Bounds bounds)
    : loop_(loop),
      remove_(std::move(remove)),
      places_(std::make_shared<TurnQueue>(loop, bounds.pending, "the removal of layers")),
      book_(std::make_shared<Book>(loop)),
      pool_(bounds.threads) {}

LayerTrash::~LayerTrash() {
  pool_.stop();
  pool_.join();
}

asio::awaitable<void> LayerTrash::take(std::vector<std::string> ids) {
  for (std::string& id : ids) {
    auto turn = co_await places_->take(WhenBusy::Wait);
    if (turn) {
      begin(std::move(id), *std::move(turn));
    } else {
      book_->left.push_back(std::move(id));  // too many wait, or the caller was canceled
    }
  }
}

void LayerTrash::begin(std::string id, Turn turn) {
  ++book_->pending;
  asio::post(pool_, [&loop = loop_, remove = remove_, book = book_, id = std::move(id),
                     turn = std::move(turn)]() mutable {
    bool is_removed = false;
    try {
      is_removed = remove(id);
    } catch (const std::exception&) {
      is_removed = false;  // short of memory: tried again like any other failure
    }
    asio::post(loop, [book = std::move(book), id = std::move(id), turn = std::move(turn),
                      is_removed]() mutable {
      --book->pending;
      if (!is_removed) book->left.push_back(std::move(id));
      book->changed.notify();
    });
  });
}

std::vector<std::string> LayerTrash::take_left() { return std::exchange(book_->left, {}); }

std::size_t LayerTrash::pending() const { return book_->pending; }

asio::awaitable<void> LayerTrash::drain(std::chrono::milliseconds patience) {
  const std::shared_ptr<Book> book = book_;
  asio::steady_timer timer(loop_, patience);
  // Not of this coroutine: a timer that has just run out calls back although it is destroyed.
  const auto is_late = std::make_shared<bool>(false);
  timer.async_wait([book, is_late](const boost::system::error_code& problem) {
    if (problem) return;
    *is_late = true;
    book->changed.notify();
  });
  while (book->pending > 0 && !*is_late) {
    const Woken woken = co_await book->changed.wait();
    if (woken == Woken::Canceled) co_return;
  }
}

}  // namespace glovebox::session
