// What all handles of one Supervisor share: a SessionManager of sessions, and the thread that its
// loop runs on. The calling thread waits for the loop.
#pragma once

#include "base/result.h"
#include "glovebox/glovebox.h"
#include "session/manager/session_manager.h"
#include "session/store/temporary_state.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include <sys/types.h>
#include <unistd.h>

namespace glovebox::library {

// What a coroutine threw, as an error: a bug of ours, or memory that is not there.
Error to_error(const std::exception_ptr& problem);

class Host {
 public:
  static Result<std::shared_ptr<Host>> open(const Settings& settings);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host();

  // Does `work(manager)`, which gives an awaitable<Result<T>>, on the loop. Code::NotFound after
  // close(); Code::Invalid on the loop's own thread, which would wait for itself, and in a forked
  // child, which has no such thread.
  template <class Work>
  auto call(Work work) {
    using Given = std::invoke_result_t<Work, session::SessionManager&>;
    using Answer = typename Given::value_type;
    if (auto fit = check_caller(); !fit) return Answer(unexpected(fit.error()));
    std::promise<Answer> promise;
    std::future<Answer> answer = promise.get_future();
    boost::asio::co_spawn(
        loop_, perform<Answer>(std::move(work)),
        [&promise](const std::exception_ptr& problem, Answer given) {
          promise.set_value(problem ? Answer(unexpected(to_error(problem))) : std::move(given));
        });
    return answer.get();
  }

  // Ends every box and deletes every session. Calls that are under way end with an error. Nothing
  // in a forked child: the boxes are its parent's.
  void close();

 private:
  template <class Answer, class Work>
  boost::asio::awaitable<Answer> perform(Work work) {
    if (!manager_) co_return fail(Code::NotFound, "the supervisor is closed");
    ++under_way_;
    try {
      Answer answer = co_await work(*manager_);
      --under_way_;
      co_return answer;
    } catch (...) {
      --under_way_;
      throw;
    }
  }
  Host() = default;
  Result<void> check_caller() const;
  boost::asio::awaitable<Result<void>> stop();
  void run_loop(session::ManagerSettings settings, std::promise<Result<void>> opened);

  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  std::unique_ptr<session::TemporaryState> state_;  // nothing: the caller has a directory
  // Of the loop's thread.
  std::unique_ptr<session::SessionManager> manager_;
  std::size_t under_way_ = 0;
  std::thread thread_;
  pid_t owner_ = ::getpid();
};

}  // namespace glovebox::library
