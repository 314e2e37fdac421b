// How a coroutine waits for something that callbacks bring about.
//
// A callback changes some state and calls notify(); the coroutine that waits looks at the state
// again. One notification is remembered, so none is lost between a look and the wait. One waiter at
// a time. The loop's thread only.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cstdint>

namespace glovebox::session {

enum class Woken : std::uint8_t { Notified, Canceled };

class Wakeup {
 public:
  explicit Wakeup(boost::asio::io_context& loop) : channel_(loop.get_executor(), 1) {}

  void notify() { channel_.try_send(boost::system::error_code()); }

  // Canceled when the waiting coroutine is cancelled.
  boost::asio::awaitable<Woken> wait() {
    constexpr auto kAsTuple = boost::asio::as_tuple(boost::asio::use_awaitable);
    const auto [problem] = co_await channel_.async_receive(kAsTuple);
    co_return problem ? Woken::Canceled : Woken::Notified;
  }

 private:
  boost::asio::experimental::channel<void(boost::system::error_code)> channel_;
};

}  // namespace glovebox::session
