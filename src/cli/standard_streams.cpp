#include "cli/standard_streams.h"

#include "base/pipe.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

namespace glovebox::app {
namespace {

constexpr std::array<const char*, 3> kNames{"standard input", "standard output", "standard error"};
constexpr unsigned kMemoryDevices = 1;  // the major number of /dev/null, zero, full, random

enum class Way : std::uint8_t { Pass, Relay, Terminal };

// How the box is connected with a stream of ours. A file can be written and a socket be connected
// elsewhere: of those it gets the bytes alone.
Result<Way> choose_way(int fd) {
  const char* name = kNames.at(static_cast<std::size_t>(fd));
  struct stat info{};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fstat(fd, &info) != 0) return fail_os(errno, "{}", name);
  const bool is_path = (flags & O_PATH) != 0;
  if (S_ISCHR(info.st_mode) && !is_path) {
    if (major(info.st_rdev) == kMemoryDevices) return Way::Pass;
    if (::isatty(fd) == 1) return Way::Terminal;
  }
  if (S_ISREG(info.st_mode) && !is_path) {
    return (flags & O_ACCMODE) == O_RDONLY ? Way::Pass : Way::Relay;
  }
  if (S_ISSOCK(info.st_mode) && !is_path) return Way::Relay;
  if (S_ISFIFO(info.st_mode) && !is_path) return Way::Pass;
  return fail(Code::Denied,
              "{} is a directory or a device: a box takes files, pipes, sockets and terminals "
              "(redirect it, for example with </dev/null)",
              name);
}

// As root the box's user is a leased uid, not the caller, and a script that writes to /dev/stderr
// opens the pipe again. A pipe without a name is reached only by those who hold it: its mode may be
// open.
Result<void> let_reopen(int fd) {
  struct statfs where{};
  if (::fstatfs(fd, &where) != 0) return fail_os(errno, "look at a stream");
  if (where.f_type != PIPEFS_MAGIC || ::geteuid() != 0) return {};
  if (::fchmod(fd, 0666) != 0) return fail_os(errno, "open a pipe's mode");
  return {};
}

// The box's end of a pipe; what comes out at the other goes to `fd`, or comes from there.
Result<int> relay(int fd, launch::Relay::Direction direction, Connection& connection) {
  using launch::Relay;
  TRY(Pipe pipe, open_pipe());
  const bool is_out = direction == Relay::Direction::OutOfBox;
  UniqueFd ours = std::move(is_out ? pipe.read : pipe.write);
  UniqueFd theirs = std::move(is_out ? pipe.write : pipe.read);
  TRY_VOID(set_nonblocking(ours));
  TRY_VOID(let_reopen(theirs.get()));
  Relay::End own = Relay::End::own(std::move(ours));
  Relay::End caller = Relay::End::borrow(fd);
  if (!is_out) std::swap(own, caller);
  connection.streams.relays.emplace_back(std::move(own), std::move(caller), direction);
  const int number = theirs.get();
  connection.owned.push_back(std::move(theirs));
  return number;
}

plan::TerminalSize terminal_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {};
  return {size.ws_row, size.ws_col};
}

}  // namespace

Result<void> fill_closed_streams() {
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is the one that was closed.
    if (::open("/dev/null", O_RDWR) != fd) return fail_os(errno, "open /dev/null");  // NOLINT
  }
  return {};
}

// Standard output says the size, if it is a terminal: it may be another one than input's.
Result<std::optional<plan::TerminalSize>> find_terminal() {
  std::optional<plan::TerminalSize> size;
  for (const int fd : {1, 2, 0}) {
    TRY(const Way way, choose_way(fd));
    if (way == Way::Terminal) return terminal_size(fd);
  }
  return size;
}

Result<Connection> connect_streams(Counting counting) {
  Connection connection;
  for (int fd = 0; fd < 3; ++fd) {
    TRY(const Way way, choose_way(fd));
    auto& place = connection.for_box.at(static_cast<std::size_t>(fd));
    if (way == Way::Terminal) {
      place = -1;
      connection.streams.has_terminal = true;
      if (fd == 0) connection.streams.terminal_input = 0;
      if (connection.streams.terminal_output < 1) connection.streams.terminal_output = fd;
    } else if (way == Way::Relay || (fd != 0 && counting == Counting::On)) {
      using Direction = launch::Relay::Direction;
      TRY(place, relay(fd, fd == 0 ? Direction::IntoBox : Direction::OutOfBox, connection));
    } else {
      TRY_VOID(let_reopen(fd));
    }
  }
  return connection;
}

RawTerminal::RawTerminal() {
  termios mode{};
  if (::isatty(0) != 1 || ::tcgetpgrp(0) != ::getpgrp() || ::tcgetattr(0, &mode) != 0) return;
  saved_ = mode;
  ::cfmakeraw(&mode);
  if (::tcsetattr(0, TCSADRAIN, &mode) != 0) saved_.reset();
}

RawTerminal::~RawTerminal() {
  if (saved_) (void)::tcsetattr(0, TCSADRAIN, &*saved_);  // nothing better can be done at the end
}

}  // namespace glovebox::app
