// The server on standard input and output.
#include "base/file.h"
#include "mcp/mcp_server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <csignal>
#include <deque>

#include <fcntl.h>

namespace glovebox::mcp {
namespace {

constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);
// When the input has ended, calls get so long to be answered.
constexpr std::chrono::seconds kLastAnswers{5};

// One of the two standard streams. Pipes, sockets and terminals are waited for by the loop; what
// the kernel cannot watch (a file, /dev/null) never blocks, and is used directly.
class Stream {
 public:
  Stream(asio::io_context& loop, int fd) : fd_(::fcntl(fd, F_DUPFD_CLOEXEC, 3)), watched_(loop) {
    boost::system::error_code problem;
    watched_.assign(fd_.get(), problem);
    if (!problem) fd_.release();
  }

  // 0 is the end, and so is an error: the peer is gone.
  asio::awaitable<std::size_t> read(std::span<char> buffer) {
    if (!fd_) {
      const auto target = asio::buffer(buffer.data(), buffer.size());
      const auto [problem, size] = co_await watched_.async_read_some(target, kAsTuple);
      co_return problem ? 0 : size;
    }
    const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
    co_return size < 0 ? 0 : static_cast<std::size_t>(size);
  }

  asio::awaitable<bool> write(std::string_view text) {
    if (fd_) co_return write_all(fd_, text).has_value();
    const auto source = asio::buffer(text.data(), text.size());
    const auto [problem, size] = co_await asio::async_write(watched_, source, kAsTuple);
    co_return !problem;
  }

 private:
  UniqueFd fd_;  // as long as it is not watched
  asio::posix::stream_descriptor watched_;
};

class StdioServer {
 public:
  StdioServer(asio::io_context& loop, ServerSettings settings)
      : loop_(loop),
        input_(loop, STDIN_FILENO),
        output_(loop, STDOUT_FILENO),
        signals_(loop, SIGTERM, SIGINT, SIGHUP),
        server_(loop, std::move(settings), [this](std::string line) { send(std::move(line)); }) {}

  Result<void> run() {
    TRY_VOID(server_.open_log());
    signals_.async_wait([this](const boost::system::error_code& problem, int /*signal*/) {
      if (!problem) asio::co_spawn(loop_, finish(), asio::detached);
    });
    asio::co_spawn(loop_, read(), asio::detached);
    loop_.run();
    return {};
  }

 private:
  asio::awaitable<void> read() {
    std::array<char, 65536> buffer{};
    LineSplitter lines;
    while (const std::size_t size = co_await input_.read(buffer)) {
      lines.feed(
          std::string_view(buffer.data(), size),
          [this](std::string_view line) { server_.take_line(line); },
          [this] { server_.refuse_long_line(); });
    }
    const auto until = Clock::now() + kLastAnswers;
    asio::steady_timer timer(loop_);
    while ((server_.under_way() > 0 || is_writing_) && Clock::now() < until && !is_finishing_) {
      timer.expires_after(std::chrono::milliseconds(5));
      (void)co_await timer.async_wait(kAsTuple);  // cancelled or not: the loop looks again
    }
    co_await finish();
  }

  void send(std::string line) {
    lines_.push_back(std::move(line));
    if (is_writing_) return;
    is_writing_ = true;
    asio::co_spawn(loop_, write(), asio::detached);
  }

  asio::awaitable<void> write() {
    while (!lines_.empty()) {
      const std::string line = std::move(lines_.front());
      lines_.pop_front();
      if (!co_await output_.write(line)) break;  // the reader is gone: the input will end too
    }
    lines_.clear();
    is_writing_ = false;
  }

  asio::awaitable<void> finish() {
    if (is_finishing_) co_return;
    is_finishing_ = true;
    co_await server_.stop();
    loop_.stop();
  }

  asio::io_context& loop_;
  Stream input_;
  Stream output_;
  asio::signal_set signals_;
  Server server_;
  std::deque<std::string> lines_;
  bool is_writing_ = false;
  bool is_finishing_ = false;
};

}  // namespace

Result<void> serve_stdio(ServerSettings settings) {
  ::signal(SIGPIPE, SIG_IGN);
  asio::io_context loop(1);
  StdioServer server(loop, std::move(settings));
  return server.run();
}

}  // namespace glovebox::mcp
