// Work that is cancelled when its client disconnects.
#pragma once

#include "http/exchange.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>

namespace glovebox::serve {

// Does the work, and cancels it when the client goes away. What was cancelled still returns: with
// an error, after it has put away what it had begun.
template <class T>
asio::awaitable<T> until_gone(Exchange& exchange, asio::awaitable<T> work) {
  asio::cancellation_signal gone;
  const auto watch =
      exchange.watch_client([&gone] { gone.emit(asio::cancellation_type::terminal); });
  const auto executor = co_await asio::this_coro::executor;
  auto [thrown, result] = co_await asio::co_spawn(
      executor, std::move(work),
      asio::bind_cancellation_slot(gone.slot(), asio::as_tuple(asio::use_awaitable)));
  if (thrown) std::rethrow_exception(thrown);
  co_return std::move(result);
}

}  // namespace glovebox::serve
