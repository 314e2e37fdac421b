// A terminal for tests: the test is the person at the keyboard, glovebox runs on the other side.
#pragma once

#include "base/unique_fd.h"
#include "support/process.h"

#include <string>
#include <string_view>

#include <termios.h>

namespace glovebox::test {

class Terminal {
 public:
  Terminal(unsigned short rows, unsigned short columns);

  // The side that programs get; its path is for Launch::terminal.
  int program_side() const { return slave_.get(); }
  const std::string& path() const { return path_; }

  void type(std::string_view keys) const;
  void resize(unsigned short rows, unsigned short columns) const;
  // Waits until `words` have appeared on the screen.
  bool shows(std::string_view words, Clock::time_point deadline);
  // Everything that has appeared so far.
  const std::string& screen() const { return screen_; }
  // Takes what has appeared by now, without waiting for more.
  void look();

  termios settings() const;
  // Bytes that wait to be read by the next program on this terminal.
  int unread_input() const;

 private:
  UniqueFd master_, slave_;
  std::string path_;
  std::string screen_;
};

}  // namespace glovebox::test
