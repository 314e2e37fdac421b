// One end of the socket between supervisor and agent: whole frames in, whole frames out.
//
// Nothing here blocks. What the peer does not take is queued up to a bound; what comes in is cut
// into frames and no further looked at. Both sides use it, so it treats the peer as hostile: a
// header is checked before its payload is waited for, and no peer can make it hold more than one
// frame.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/protocol/protocol.h"

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::guest {

// The most bytes of frames that wait for the peer to read.
inline constexpr std::size_t kMaxQueued = std::size_t{1} << 20;

struct ReceivedFrame {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

class Wire {
 public:
  Wire(UniqueFd socket, Transport transport);

  BorrowedFd fd() const { return socket_; }
  Transport transport() const { return transport_; }
  // The peer has closed its end, and everything it sent was received.
  bool at_end() const { return at_end_; }

  // Sends, or queues behind what is queued. Closes `fds` once they are sent. A full queue is
  // Code::Exhausted: the peer does not read.
  Result<void> send(std::string frame, std::vector<UniqueFd> fds = {});
  // Whether to call flush() when the socket can be written.
  bool wants_write() const { return !queue_.empty(); }
  std::size_t queued() const { return queued_; }
  Result<void> flush();

  // The next frame; nothing when there is none yet, or at the end.
  Result<std::optional<ReceivedFrame>> receive();

 private:
  struct Outgoing {
    std::string bytes;
    std::vector<UniqueFd> fds;
    std::size_t sent = 0;
  };

  Result<bool> send_some(Outgoing& outgoing);
  Result<std::optional<ReceivedFrame>> receive_packet();
  Result<std::optional<ReceivedFrame>> receive_from_stream();

  UniqueFd socket_;
  Transport transport_;
  bool at_end_ = false;
  std::deque<Outgoing> queue_;
  std::size_t queued_ = 0;
  std::string partial_;  // Stream: the beginning of a frame
};

}  // namespace glovebox::guest
