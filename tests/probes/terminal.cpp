// The terminal as the command sees it.
#include "probe.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

// For 0, 1, 2: is it a terminal, which device on which filesystem. Then /dev/tty and the session.
int print_tty(Args) {
  for (int fd = 0; fd <= 2; ++fd) {
    struct stat info{};
    if (fstat(fd, &info) != 0) return errno;
    char name[256] = "-";
    if (isatty(fd) != 0 && ttyname_r(fd, name, sizeof name) != 0) return errno;
    say("fd %d tty %d name %s dev %llu", fd, isatty(fd), name,
        static_cast<unsigned long long>(info.st_dev));
  }
  const int controlling = open("/dev/tty", O_RDWR | O_CLOEXEC);
  say("controlling %s", controlling >= 0 ? "yes" : strerrorname_np(errno));
  say("leader %d foreground %d", getsid(0) == getpid() ? 1 : 0,
      controlling >= 0 && tcgetpgrp(controlling) == getpgrp() ? 1 : 0);
  return 0;
}

int print_size() {
  winsize size{};
  if (ioctl(0, TIOCGWINSZ, &size) != 0) return errno;
  say("size %u %u", size.ws_row, size.ws_col);
  return 0;
}

int print_window(Args) { return print_size(); }

int await_resize(Args) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGWINCH);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int error = print_size();
  if (error != 0) return error;
  int received = 0;
  sigwait(&signals, &received);
  return print_size();
}

int check_session_leader(Args) {
  say("pid %d session %d group %d", getpid(), getsid(0), getpgrp());
  return getsid(0) == getpid() && getpgrp() == getpid() ? 0 : EBADE;
}

// Takes over a terminal by path as the controlling one, as an attacker would with the caller's.
int steal_tty(Args args) {
  const int fd = open(text(args, 0), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return errno;
  return met(ioctl(fd, TIOCSCTTY, 1));
}

// Puts the terminal into raw mode and leaves it so: the caller's must not be affected.
int make_raw(Args) {
  termios settings{};
  if (tcgetattr(0, &settings) != 0) return errno;
  cfmakeraw(&settings);
  return met(tcsetattr(0, TCSANOW, &settings));
}

constexpr Probe kProbes[] = {
    {"tty", print_tty, "prints which of 0, 1, 2 are terminals, and whose"},
    {"window", print_window, "prints the window size"},
    {"await_resize", await_resize, "prints the window size before and after SIGWINCH"},
    {"session_leader", check_session_leader, "checks that it leads its session"},
    {"steal_tty", steal_tty, "PATH: makes a terminal its controlling one"},
    {"raw_tty", make_raw, "sets raw mode and leaves it"},
};

}  // namespace

std::span<const Probe> terminal_probes() { return kProbes; }

}  // namespace glovebox::probe
