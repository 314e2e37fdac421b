// Starting programs, and being a program with a known end.
#include "probe.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

constexpr mode_t kAllRead = 0444;

int try_exec(Args args) {
  std::vector<char*> words(args.begin(), args.end());
  words.push_back(nullptr);
  say("executes %s", text(args, 0));
  execv(text(args, 0), words.data());
  return errno;
}

int copy_file(const char* from, int to) {
  const int source = open(from, O_RDONLY | O_CLOEXEC);
  if (source < 0) return errno;
  char bytes[65536];
  for (ssize_t count = 0; (count = read(source, bytes, sizeof bytes)) != 0;) {
    if (count < 0 || write(to, bytes, static_cast<std::size_t>(count)) != count) return errno;
  }
  close(source);
  return 0;
}

// [PROBE]: runs a copy of this program out of memory, from a memfd.
int try_memfd_exec(Args args) {
  const int fd = memfd_create("program", 0);
  if (fd < 0) return errno;
  const int error = copy_file("/proc/self/exe", fd);
  if (error != 0) return error;
  std::string name = "probe", probe_name = text_or(args, 0, "ids");
  char* words[] = {name.data(), probe_name.data(), nullptr};
  say("executes descriptor %d", fd);
  syscall(SYS_execveat, fd, "", words, environ, AT_EMPTY_PATH);
  return errno;
}

// Opens the program behind PID for writing, the way a runtime was once overwritten from inside.
int try_exe_write(Args args) {
  const std::string path = std::string("/proc/") + text(args, 0) + "/exe";
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  return fd < 0 ? errno : 0;
}

int try_exe_read(Args args) {
  const std::string path = std::string("/proc/") + text(args, 0) + "/exe";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return fd < 0 ? errno : 0;
}

// Copies this program to PATH, executable, optionally with a mode such as 04755.
int copy_self(Args args) {
  const auto mode = static_cast<mode_t>(args.size() > 1 ? number(args, 1) : 0755);
  const int fd = open(text(args, 0), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
  if (fd < 0) return errno;
  const int error = copy_file("/proc/self/exe", fd);
  if (error != 0) return error;
  return met(fchmod(fd, mode));
}

int exit_with(Args args) {
  say("ends with %ld", number(args, 0));
  std::exit(static_cast<int>(number(args, 0)));
}

int die_by_signal(Args args) {
  const auto signal_number = static_cast<int>(number(args, 0));
  signal(signal_number, SIG_DFL);
  raise(signal_number);
  return EIO;
}

int print_arguments(Args args) {
  say("argc %zu", args.size());
  for (std::size_t i = 0; i < args.size() && i < 16; ++i) say("arg %s", args[i]);
  return 0;
}

int wait_for_ever(Args) {
  say("ready");
  for (;;) pause();
}

// Says when it is ready, then which signal came, and ends with code 40 + its number.
int await_signal(Args args) {
  sigset_t signals;
  sigemptyset(&signals);
  for (std::size_t i = 0; i < args.size(); ++i) {
    sigaddset(&signals, static_cast<int>(number(args, i)));
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  say("ready");
  int received = 0;
  sigwait(&signals, &received);
  say("signal %d", received);
  std::exit(40 + received);
}

// The dispositions and the mask that a command starts with. EBADE unless both are empty.
int check_signals(Args) {
  int ignored = 0;
  for (int signal_number = 1; signal_number < 65; ++signal_number) {
    struct sigaction action{};
    if (sigaction(signal_number, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN) {
      say("ignored %d", signal_number);
      ++ignored;
    }
  }
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  if (sigisemptyset(&blocked) == 0) say("some signals are blocked");
  return ignored == 0 && sigisemptyset(&blocked) == 1 ? 0 : EBADE;
}

// Waits for one line on stdin, then makes PATH: proof that it lived until then.
int make_after_line(Args args) {
  say("ready");
  char byte = 0;
  while (read(0, &byte, 1) == 1 && byte != '\n') {
  }
  const int fd = open(text(args, 0), O_WRONLY | O_CREAT | O_CLOEXEC, kAllRead);
  return fd < 0 ? errno : 0;
}

constexpr Probe kProbes[] = {
    {"exec", try_exec, "PATH ARGS...: executes a program"},
    {"memfd_exec", try_memfd_exec, "[PROBE]: executes a copy of itself from memory"},
    {"exe_write", try_exe_write, "PID: opens /proc/PID/exe for writing"},
    {"exe_read", try_exe_read, "PID: opens /proc/PID/exe for reading"},
    {"copy_self", copy_self, "PATH [MODE]: copies itself to PATH"},
    {"exit_code", exit_with, "N: ends with code N"},
    {"signal_self", die_by_signal, "N: ends by signal N"},
    {"arguments", print_arguments, "ARGS...: prints how many and the first ones"},
    {"sleep", wait_for_ever, "says ready and waits for ever"},
    {"await_signal", await_signal, "N...: waits for a signal, ends with 40 + its number"},
    {"signals", check_signals, "checks that no signal is ignored or blocked"},
    {"make_after_line", make_after_line, "PATH: reads a line, then makes a file"},
};

}  // namespace

std::span<const Probe> exec_probes() { return kProbes; }

}  // namespace glovebox::probe
