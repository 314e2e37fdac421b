// A SessionManager with a loop and directories of its own, for tests.
#pragma once

#include "session/manager/session_manager.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

// Keeps what a run prints.
class Collect final : public OutputReader {
 public:
  asio::awaitable<Result<void>> take(guest::Stream stream, std::string_view bytes) override {
    (stream == guest::Stream::Output ? output : error).append(bytes);
    co_return Result<void>();
  }
  std::string output;
  std::string error;
};

// What came of a run.
struct Told {
  int code = -1;
  std::string output;
  std::string error;
  bool timed_out = false;
  bool canceled = false;
  std::string problem;  // of a run without a result
};

class ManagerTest : public testing::Test {
 protected:
  ManagerTest();
  ~ManagerTest() override;
  void SetUp() override;

  // Made new for each test, and gone after it.
  std::string state_directory() const { return place_ / "state"; }
  std::string work_directory() const { return place_ / "work"; }
  virtual ManagerSettings settings() const;
  void open_manager();
  void close_manager() { manager_.reset(); }

  // Runs the loop until the coroutine is done.
  template <class T>
  T await(asio::awaitable<T> work) {
    std::optional<T> value;
    std::exception_ptr problem;
    asio::co_spawn(loop_, std::move(work), [&](std::exception_ptr thrown, T result) {
      problem = thrown;
      value.emplace(std::move(result));
    });
    loop_.restart();
    while (!value) loop_.run_one();
    if (problem) std::rethrow_exception(problem);
    return *std::move(value);
  }
  void await(asio::awaitable<void> work);
  // Lets the loop run until `is_true`, or fails the test after some seconds.
  void run_until(const std::function<bool()>& is_true);

  // Lets the loop run until everything that is being removed is gone, and says what there is of
  // layers then; or with the rest of it, after some seconds.
  std::vector<std::string> settled_layers();

  // A session over work_directory(), which must begin.
  SessionInfo make_session(WorkspaceMode mode = WorkspaceMode::Overlay);
  std::shared_ptr<LiveSession> attach(const SessionInfo& info);
  Told run(const SessionInfo& info, RunRequest request);
  Told run(const SessionInfo& info, const std::string& code);

  asio::io_context loop_{1};
  std::filesystem::path place_;
  std::unique_ptr<SessionManager> manager_;
};

asio::awaitable<Told> run_and_tell(std::shared_ptr<LiveSession> session, RunRequest request);

// Descriptors that this process has open.
std::size_t count_descriptors();
// Processes below this one, the launcher's included.
std::size_t count_descendants();
// Mounts that this process sees.
std::size_t count_mounts();
// Cgroups of launchers that this test program has had, by controller.
std::map<std::string, std::size_t> count_cgroups();
// Adds a process to those whose cgroups are counted; fixture's own launchers are known.
void remember_launcher(pid_t pid);

// Resident memory of this process, in bytes.
std::size_t resident_bytes();

}  // namespace glovebox::session
