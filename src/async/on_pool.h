// Blocking work off the loop.
//
//   CO_TRY(const Layer layer, co_await on_pool(pool, [path] { return open(path); }));
//
// The work runs on a thread of the pool and the coroutine goes on, on its own loop, when it is
// done. The work owns what it uses: it must not touch anything that belongs to the loop's thread.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <future>
#include <memory>
#include <type_traits>
#include <utility>

namespace glovebox::session {

template <class Work>
boost::asio::awaitable<std::invoke_result_t<Work&>> on_pool(boost::asio::thread_pool& pool,
                                                            Work work) {
  namespace asio = boost::asio;
  using Value = std::invoke_result_t<Work&>;
  const auto loop = co_await asio::this_coro::executor;
  const auto task = std::make_shared<std::packaged_task<Value()>>(std::move(work));
  std::future<Value> value = task->get_future();
  const auto begin = [&pool, &loop, &task](auto handler) {
    // The guard keeps the loop running while the coroutine is away.
    asio::post(pool, [task = task, guard = asio::make_work_guard(loop),
                      handler = std::move(handler)]() mutable {
      (*task)();
      asio::post(guard.get_executor(), std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(begin, asio::use_awaitable);
  co_return value.get();  // throws what the work threw
}

}  // namespace glovebox::session
