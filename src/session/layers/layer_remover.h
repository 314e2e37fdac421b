// Removes layers that are not needed any more, in the background.
//
// Removing a tree can take long (a box may have made a million files, and some disks are slow to
// give back even one directory), and no caller has to wait for it: a layer that comes here has lost
// its name before (workspace::mark_removed), so it is not found, and whatever is left of it when
// this process dies goes with the next start.
//
// It still takes disk until then. So there is a bound on how many wait here: who brings one more
// waits for another to be gone.
//
// Everything here belongs to the loop's thread, except for what `Remove` does.
#pragma once

#include "async/semaphore.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace glovebox::session {

class LayerRemover {
 public:
  // Removes what is left of a layer; false when it could not. Called on threads of the remover, on
  // several at once.
  using Remove = std::function<bool(const std::string& id)>;

  struct Bounds {
    // More than one, although they share a disk: they wait for it more than they work.
    std::size_t threads = 4;
    std::size_t pending = 64;
  };

  LayerRemover(asio::io_context& loop, Remove remove, Bounds bounds);
  LayerRemover(const LayerRemover&) = delete;
  LayerRemover& operator=(const LayerRemover&) = delete;
  // Waits for those that are being removed; the others stay where they are.
  ~LayerRemover();

  // Done as soon as all of them have their place here, not when they are gone.
  asio::awaitable<void> take(std::vector<std::string> ids);
  // Those that could not be removed since the last call.
  std::vector<std::string> take_left();
  std::size_t pending() const;
  // Waits until nothing is pending, for so long at most.
  asio::awaitable<void> drain(std::chrono::milliseconds patience);

 private:
  struct State;
  using Turn = Semaphore::Permit;

  void begin(std::string id, Turn turn);

  asio::io_context& loop_;
  Remove remove_;
  std::shared_ptr<Semaphore> places_;
  std::shared_ptr<State> state_;
  asio::thread_pool pool_;  // goes first: its threads use the rest
};

}  // namespace glovebox::session
