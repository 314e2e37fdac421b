// Several coroutines at once, all of them to their end.
//
//   std::vector<Result<SessionInfo>> made = co_await together(loop, std::move(works));
//
// The results are in the order of the coroutines. They belong to the one loop, so they take turns
// and need no lock. They are not ended when the one who waits for them is.
#pragma once

#include "async/event.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <vector>

namespace glovebox::session {

template <class T>
boost::asio::awaitable<std::vector<T>> together(boost::asio::io_context& loop,
                                                std::vector<boost::asio::awaitable<T>> works) {
  namespace asio = boost::asio;
  struct Group {
    explicit Group(asio::io_context& io, std::size_t count) : results(count), done(io) {}
    std::vector<std::optional<T>> results;
    std::size_t left = 0;
    std::exception_ptr problem;
    Wakeup done;
  };
  const auto group = std::make_shared<Group>(loop, works.size());
  group->left = works.size();
  for (std::size_t i = 0; i < works.size(); ++i) {
    asio::co_spawn(loop, std::move(works[i]), [group, i](std::exception_ptr thrown, T result) {
      if (thrown && !group->problem) group->problem = std::move(thrown);
      group->results[i].emplace(std::move(result));
      --group->left;
      group->done.notify();
    });
  }
  while (group->left > 0) (void)co_await group->done.wait();
  if (group->problem) std::rethrow_exception(group->problem);
  std::vector<T> all;
  for (std::optional<T>& result : group->results) all.push_back(*std::move(result));
  co_return all;
}

}  // namespace glovebox::session
