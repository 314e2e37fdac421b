#include "support/terminal.h"

#include "support/installation.h"

#include <cstdlib>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::test {

Terminal::Terminal(unsigned short rows, unsigned short columns)
    : master_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  char name[64];
  if (!master_ || grantpt(master_.get()) != 0 || unlockpt(master_.get()) != 0 ||
      ptsname_r(master_.get(), name, sizeof name) != 0) {
    throw std::runtime_error("cannot open a terminal");
  }
  path_ = name;
  slave_ = UniqueFd(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!slave_) throw std::runtime_error("cannot open " + path_);
  // As after a login: the terminal belongs to the user who works on it.
  if (geteuid() == 0 && chmod(name, 0666) != 0) throw std::runtime_error("cannot open up " + path_);
  resize(rows, columns);
}

void Terminal::type(std::string_view keys) const {
  if (write(master_.get(), keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
    throw std::runtime_error("cannot type");
  }
}

void Terminal::resize(unsigned short rows, unsigned short columns) const {
  winsize size{};
  size.ws_row = rows;
  size.ws_col = columns;
  if (ioctl(master_.get(), TIOCSWINSZ, &size) != 0) throw std::runtime_error("cannot resize");
}

bool Terminal::shows(std::string_view words, Clock::time_point deadline) {
  return read_until(master_, words, deadline, screen_);
}

void Terminal::look() {
  pollfd waiting{master_.get(), POLLIN, 0};
  char bytes[4096];
  while (poll(&waiting, 1, 0) > 0 && (waiting.revents & POLLIN) != 0) {
    const ssize_t count = read(master_.get(), bytes, sizeof bytes);
    if (count <= 0) return;
    screen_.append(bytes, static_cast<std::size_t>(count));
  }
}

termios Terminal::settings() const {
  termios settings{};
  if (tcgetattr(slave_.get(), &settings) != 0) throw std::runtime_error("cannot ask a terminal");
  return settings;
}

int Terminal::unread_input() const {
  // In canonical mode only whole lines count, and an injected key has no newline: look raw.
  termios saved = settings();
  termios raw = saved;
  cfmakeraw(&raw);
  int count = 0;
  if (tcsetattr(slave_.get(), TCSANOW, &raw) != 0 || ioctl(slave_.get(), FIONREAD, &count) != 0 ||
      tcsetattr(slave_.get(), TCSANOW, &saved) != 0) {
    throw std::runtime_error("cannot ask a terminal");
  }
  return count;
}

}  // namespace glovebox::test
