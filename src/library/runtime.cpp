#include "library/runtime.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <unistd.h>

namespace glovebox::library {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kStopStep{2};

// In the build directory it is beside the library; where both are installed, in bin/ of the same
// prefix, whatever the library's directory is called.
Result<std::string> find_launcher(const std::string& given) {
  std::vector<fs::path> places{given};
  if (given.empty()) {
    Dl_info self{};
    if (::dladdr(reinterpret_cast<const void*>(&find_launcher), &self) == 0) {
      return fail(Code::NotFound, "the library's own file is not known: name the launcher");
    }
    const fs::path here = fs::path(self.dli_fname).parent_path();
    places = {here / "glovebox-launcher", here / "../bin/glovebox-launcher",
              here / "../../bin/glovebox-launcher"};
  }
  for (const fs::path& place : places) {
    if (::access(place.c_str(), X_OK) != 0) continue;
    std::error_code problem;
    fs::path whole = fs::canonical(place, problem);
    if (!problem) return whole.string();
  }
  return fail(Code::NotFound, "glovebox-launcher is not at {}: it belongs to the library",
              places.back().lexically_normal().string());
}

// The signals of a program that uses the library are not this thread's.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  (void)::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

Error to_error(const std::exception_ptr& problem) {
  try {
    std::rethrow_exception(problem);
  } catch (const Bug& bug) {
    return {Code::Os, 0, "a bug of Glovebox: " + bug.message};
  } catch (const std::exception& other) {
    return {Code::Os, 0, other.what()};
  } catch (...) {
    return {Code::Os, 0, "an unknown problem"};
  }
}

Result<std::shared_ptr<Host>> Host::open(const Settings& settings) {
  // In a forked child it is left as it is: taking it apart would end the parent's boxes.
  const std::shared_ptr<Host> host(new Host, [](Host* it) {
    if (it->owner_ == ::getpid()) delete it;
  });
  session::ManagerSettings manager;
  TRY(manager.launcher, find_launcher(settings.launcher));
  manager.state_directory = settings.state_directory;
  if (manager.state_directory.empty()) {
    TRY(host->state_, session::TemporaryState::make("/var/tmp/glovebox-library-"));
    manager.state_directory = host->state_->directory();
  }
  manager.max_sessions = settings.max_sessions;
  manager.keep_parked = settings.keep_parked;
  std::promise<Result<void>> opened;
  std::future<Result<void>> answer = opened.get_future();
  host->thread_ = std::thread([self = host.get(), manager, &opened]() mutable {
    self->run_loop(std::move(manager), std::move(opened));
  });
  TRY_VOID(answer.get());
  return host;
}

// The launcher dies with the thread that started it, so it is started here.
void Host::run_loop(session::ManagerSettings settings, std::promise<Result<void>> opened) {
  block_signals();
  auto manager = session::SessionManager::open(loop_, std::move(settings));
  if (!manager) {
    opened.set_value(unexpected(manager.error()));
    return;
  }
  manager_ = *std::move(manager);
  opened.set_value({});
  loop_.run();
}

// What is under way ends because its box does; until then the SessionManager must be there.
asio::awaitable<Result<void>> Host::stop() {
  co_await manager_->stop(session::LayerFate::Remove);
  asio::steady_timer timer(loop_);
  while (under_way_ > 1) {
    timer.expires_after(kStopStep);
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_return Result<void>();
}

Result<void> Host::check_caller() const {
  if (owner_ != ::getpid()) {
    return fail(Code::Invalid,
                "the supervisor belongs to the process that this one was forked from");
  }
  if (std::this_thread::get_id() == thread_.get_id()) {
    return fail(Code::Invalid, "an output sink must not call the library");
  }
  return {};
}

void Host::close() {
  if (owner_ != ::getpid()) return;
  (void)call(
      [this](session::SessionManager& /*manager*/) { return stop(); });  // closed twice is closed
  std::promise<void> gone;
  asio::post(loop_, [&] {
    manager_.reset();
    gone.set_value();
  });
  gone.get_future().wait();
}

Host::~Host() {
  if (thread_.joinable()) {
    work_.reset();
    loop_.stop();
    thread_.join();
  }
}

}  // namespace glovebox::library
