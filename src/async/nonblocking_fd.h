// A descriptor that does not block, read and written without waiting, and a callback for when that
// can go on. The loop's thread only.
//
// The kernel is asked to watch the descriptor only once there is nothing to read or no room to
// write: most short runs are over before that.
#pragma once

#include "base/unique_fd.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace glovebox::session {

class ReadyFd {
 public:
  enum class Step : std::uint8_t {
    Moved,    // some bytes, see `bytes`
    Waiting,  // nothing for now
    Ended,    // the other end is gone; the descriptor is closed
  };
  struct Moved {
    Step step = Step::Ended;
    std::size_t bytes = 0;
  };

  explicit ReadyFd(boost::asio::io_context& loop) : loop_(&loop) {}
  // Takes over a descriptor with O_NONBLOCK, in place of the one it had.
  void adopt(UniqueFd fd);

  explicit operator bool() const { return static_cast<bool>(fd_) || watched_.has_value(); }
  void close();

  Moved read(std::span<char> buffer);
  // Reads until the buffer is full or nothing is there for now: a writer that is at work gives its
  // output in small pieces, and what is done with each costs more than to read it.
  Moved fill(std::span<char> buffer);
  Moved write(std::string_view bytes);

  // Calls `wake` once, when the descriptor may be read or written, or was closed. While one call is
  // outstanding further ones do nothing. `wake` must keep alive what it uses.
  void when_readable(std::function<void()> wake);
  void when_writable(std::function<void()> wake);

 private:
  int number() const;
  void widen();
  void wait_for(boost::asio::posix::descriptor_base::wait_type what, std::function<void()> wake);

  boost::asio::io_context* loop_;
  bool is_wide_ = false;
  UniqueFd fd_;  // until it is watched
  std::optional<boost::asio::posix::stream_descriptor> watched_;
  // Outlives this in the callback that is outstanding.
  std::shared_ptr<bool> is_waiting_ = std::make_shared<bool>(false);
};

}  // namespace glovebox::session
