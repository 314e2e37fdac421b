// Other processes: seeing them, signalling them, reading and writing their memory.
#include "probe.h"

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

pid_t pid_argument(Args args, std::size_t index) { return static_cast<pid_t>(number(args, index)); }

int try_kill(Args args) {
  return met(kill(pid_argument(args, 0), static_cast<int>(number(args, 1))));
}

int try_ptrace(Args args) {
  return met(ptrace(PTRACE_ATTACH, pid_argument(args, 0), nullptr, nullptr));
}

int try_ptrace_seize(Args args) {
  return met(ptrace(PTRACE_SEIZE, pid_argument(args, 0), nullptr, nullptr));
}

// Attaches to a child of its own: refused too, because the call as such is refused.
int try_ptrace_child(Args) {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    pause();
    _exit(0);
  }
  const int error = met(ptrace(PTRACE_ATTACH, child, nullptr, nullptr));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return error;
}

int try_proc_mem_write(Args args) {
  const std::string path = std::string("/proc/") + text(args, 0) + "/mem";
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  return fd < 0 ? errno : 0;
}

// Writes through /proc/self/mem into a read-only shared mapping of PATH. The kernel may let the
// process change what it sees itself (a private copy); the file must stay as it was. Reports the
// write's errno; the file is for the test to look at.
int try_proc_self_mem(Args args) {
  const int file = open(text(args, 0), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  const int sharing = args.size() > 1 ? MAP_PRIVATE : MAP_SHARED;
  void* page = mmap(nullptr, 4096, PROT_READ, sharing, file, 0);
  if (page == MAP_FAILED) return errno;
  const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0) return errno;
  const auto offset = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(page));
  return met(pwrite(memory, "OWNED", 5, offset));
}

int try_process_vm(Args args) {
  char bytes[16];
  iovec local{bytes, sizeof bytes};
  iovec remote{bytes, sizeof bytes};
  return met(process_vm_readv(pid_argument(args, 0), &local, 1, &remote, 1, 0));
}

int try_process_vm_write(Args args) {
  char bytes[16] = "OWNED";
  iovec local{bytes, sizeof bytes};
  iovec remote{bytes, sizeof bytes};
  return met(process_vm_writev(pid_argument(args, 0), &local, 1, &remote, 1, 0));
}

int try_pidfd_getfd(Args args) {
  const long pidfd = syscall(SYS_pidfd_open, pid_argument(args, 0), 0);
  if (pidfd < 0) return errno;
  return met(syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}

int try_kcmp(Args args) {
  return met(syscall(SYS_kcmp, getpid(), pid_argument(args, 0), 0 /*KCMP_FILE*/, 0, 0));
}

// Every process that /proc shows, as "process PID NAME".
int list_processes(Args) {
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return errno;
  while (const dirent* entry = readdir(proc)) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    const std::string path = std::string("/proc/") + entry->d_name + "/comm";
    char name[64] = "?";
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    if (fd >= 0) close(fd);
    if (length > 0) name[length - 1] = '\0';
    say("process %s %s", entry->d_name, name);
  }
  closedir(proc);
  say("self %d parent %d session %d group %d", getpid(), getppid(), getsid(0), getpgrp());
  return 0;
}

// Leaves a daemon behind: forked twice, in its own session, deaf to the signals one may ignore,
// holding stdout open. The probe itself ends at once.
int leave_orphan(Args) {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    for (int signal_number = 1; signal_number < 32; ++signal_number) {
      if (signal_number != SIGKILL && signal_number != SIGSTOP) signal(signal_number, SIG_IGN);
    }
    say("orphan waits");
    for (;;) pause();
  }
  waitpid(child, nullptr, 0);
  return 0;
}

// Starts a daemon that does not end and stays itself, telling when both are there.
int stay_with_orphan(Args args) {
  const int error = leave_orphan(args);
  if (error != 0) return error;
  say("ready");
  for (;;) pause();
}

constexpr Probe kProbes[] = {
    {"kill", try_kill, "PID SIGNAL: sends a signal"},
    {"ptrace", try_ptrace, "PID: attaches as a debugger"},
    {"ptrace_seize", try_ptrace_seize, "PID: seizes as a debugger"},
    {"ptrace_child", try_ptrace_child, "attaches to its own child"},
    {"proc_mem_write", try_proc_mem_write, "PID: opens /proc/PID/mem for writing"},
    {"proc_self_mem", try_proc_self_mem, "PATH [private]: writes into a read-only map of PATH"},
    {"process_vm", try_process_vm, "PID: process_vm_readv"},
    {"process_vm_write", try_process_vm_write, "PID: process_vm_writev"},
    {"pidfd_getfd", try_pidfd_getfd, "PID: takes descriptor 0 of another process"},
    {"kcmp", try_kcmp, "PID: compares descriptors with another process"},
    {"list_processes", list_processes, "prints every process in /proc"},
    {"orphan", leave_orphan, "leaves a daemon behind and ends"},
    {"stay_with_orphan", stay_with_orphan, "starts a daemon and waits for ever"},
};

}  // namespace

std::span<const Probe> process_probes() { return kProbes; }

}  // namespace glovebox::probe
