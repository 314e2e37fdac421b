// The caller's standard streams, and how a box is connected with them.
//
// A box never gets the caller's terminal: what is a terminal here becomes a terminal of the box's
// own. Pipes are passed as they are, and a regular file that is open for reading alone. What is
// more is not: sockets, and files that can be written, are relayed through pipes, and any output
// when its bytes must be counted; directories and devices are refused.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "launch/supervise.h"
#include "plan/spec.h"

#include <array>
#include <optional>

#include <termios.h>

namespace glovebox::app {

enum class Counting : std::uint8_t { Off, On };

struct Connection {
  std::array<int, 3> for_box{0, 1, 2};  // -1: the box's own terminal
  std::vector<UniqueFd> owned;          // the box's ends of pipes; closed after the start
  launch::Streams streams;
};

// Opens /dev/null in place of a stream that is closed, so that no later descriptor lands there.
Result<void> fill_closed_streams();

// The size of the terminal that the box gets, if one of the streams is a terminal.
Result<std::optional<plan::TerminalSize>> find_terminal();

Result<Connection> connect_streams(Counting counting);

// Puts the caller's terminal into raw mode while a box has one of its own; restored by the
// destructor. Does nothing when standard input is no terminal or we are in the background.
class RawTerminal {
 public:
  RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

 private:
  std::optional<termios> saved_;
};

}  // namespace glovebox::app
