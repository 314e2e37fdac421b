// A SessionManager of sessions with its loop, and a directory that goes with it.
#pragma once

#include "session/manager/session_manager.h"
#include "support/measure.h"

#include <boost/asio/co_spawn.hpp>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace glovebox::bench {

// Output that is not looked at.
class Ignored final : public session::OutputReader {
 public:
  boost::asio::awaitable<Result<void>> take(guest::Stream /*stream*/,
                                            std::string_view /*bytes*/) override {
    co_return Result<void>();
  }
};

class Managed {
 public:
  // Below /var/tmp, where layers and files lie on a disk: /tmp is private to every box.
  static Result<std::unique_ptr<Managed>> open() {
    auto managed = std::make_unique<Managed>();
    std::string place = "/var/tmp/glovebox-bench-XXXXXX";
    if (::mkdtemp(place.data()) == nullptr) return fail_os(errno, "make a directory");
    managed->place_ = place;
    std::filesystem::create_directory(managed->place_ / "work");
    session::ManagerSettings settings;
    settings.launcher = beside_me("glovebox-launcher");
    settings.state_directory = managed->place_ / "state";
    settings.max_sessions = 2000;
    TRY(managed->manager_, session::SessionManager::open(managed->loop_, settings));
    return managed;
  }
  Managed() = default;
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  ~Managed() {
    if (manager_) await(manager_->stop(session::LayerFate::Remove));
    manager_.reset();
    std::error_code ignored;  // a directory that stays does no harm
    std::filesystem::remove_all(place_, ignored);
  }

  session::SessionManager& manager() { return *manager_; }
  boost::asio::io_context& loop() { return loop_; }
  const std::filesystem::path& place() const { return place_; }
  // A session over the directory "work".
  session::BoxRequest request() const {
    session::BoxRequest request;
    request.workspaces.push_back({place_ / "work"});
    return request;
  }

  template <class T>
  T await(boost::asio::awaitable<T> work) {
    std::optional<T> value;
    boost::asio::co_spawn(loop_, std::move(work), [&](std::exception_ptr problem, T result) {
      if (problem) std::rethrow_exception(problem);
      value.emplace(std::move(result));
    });
    loop_.restart();
    while (!value) loop_.run_one();
    return *std::move(value);
  }
  void await(boost::asio::awaitable<void> work) {
    bool is_done = false;
    boost::asio::co_spawn(loop_, std::move(work), [&](std::exception_ptr) { is_done = true; });
    loop_.restart();
    while (!is_done) loop_.run_one();
  }
  // Lets the loop do the work that no caller waits for.
  void idle(std::chrono::milliseconds time) {
    loop_.restart();
    loop_.run_for(time);
  }

 private:
  boost::asio::io_context loop_{1};
  std::filesystem::path place_;
  std::unique_ptr<session::SessionManager> manager_;
};

}  // namespace glovebox::bench
