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

#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace glovebox::session {

template <class Work>
boost::asio::awaitable<std::invoke_result_t<Work&>> on_pool(boost::asio::thread_pool& pool,
                                                            Work work) {
  namespace asio = boost::asio;
  using Value = std::invoke_result_t<Work&>;
  struct Task {
    Work work;
    std::optional<Value> value{};
    std::exception_ptr problem{};
  };
  const auto loop = co_await asio::this_coro::executor;
  const auto task = std::make_shared<Task>(Task{std::move(work)});
  const auto begin = [&pool, &loop, &task](auto handler) {
    // The guard keeps the loop running while the coroutine is away.
    asio::post(pool, [task = task, guard = asio::make_work_guard(loop),
                      handler = std::move(handler)]() mutable {
      try {
        task->value.emplace(task->work());
      } catch (...) {
        task->problem = std::current_exception();  // rethrown in the coroutine below
      }
      asio::post(guard.get_executor(), std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(begin, asio::use_awaitable);
  if (task->problem) std::rethrow_exception(task->problem);
  co_return *std::move(task->value);
}

}  // namespace glovebox::session
