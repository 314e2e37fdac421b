// Namespaces: making them, entering them, telling which ones the process is in.
#include "probe.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

struct NamedFlag {
  std::string_view name;
  unsigned long value;
};

constexpr NamedFlag kFlags[] = {
    {"user", CLONE_NEWUSER},     {"mount", CLONE_NEWNS},  {"pid", CLONE_NEWPID},
    {"net", CLONE_NEWNET},       {"ipc", CLONE_NEWIPC},   {"uts", CLONE_NEWUTS},
    {"cgroup", CLONE_NEWCGROUP}, {"time", CLONE_NEWTIME},
};

unsigned long flag_value(const char* name) {
  for (const NamedFlag& flag : kFlags) {
    if (flag.name == name) return flag.value;
  }
  say("no namespace named '%s'", name);
  _exit(kUsage);
}

int reap(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, __WALL) < 0) return errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

int try_unshare(Args args) { return met(syscall(SYS_unshare, flag_value(text(args, 0)))); }

int try_clone_flag(Args args) {
  const unsigned long flags = flag_value(text(args, 0)) | SIGCHLD;
  const long child = syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr);
  if (child < 0) return errno;
  if (child == 0) _exit(0);
  return reap(static_cast<pid_t>(child));
}

int clone3_with(unsigned long flags) {
  clone_args request{};
  request.flags = flags;
  request.exit_signal = SIGCHLD;
  const long child = syscall(SYS_clone3, &request, sizeof request);
  if (child < 0) return errno;
  if (child == 0) _exit(0);
  return reap(static_cast<pid_t>(child));
}

int try_clone3(Args args) { return clone3_with(args.empty() ? 0 : flag_value(text(args, 0))); }

int try_setns(Args args) {
  const int fd = open(text(args, 0), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  return met(syscall(SYS_setns, fd, 0));
}

// The seven namespaces by inode, for comparison with those outside.
int print_namespaces(Args) {
  for (const char* name : {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}) {
    char target[64];
    const std::string path = std::string("/proc/self/ns/") + name;
    const ssize_t length = readlink(path.c_str(), target, sizeof target - 1);
    if (length < 0) return errno;
    target[length] = '\0';
    say("ns %s", target);
  }
  return 0;
}

int print_hostname(Args) {
  utsname names{};
  if (uname(&names) != 0) return errno;
  say("hostname %s", names.nodename);
  return 0;
}

int try_sethostname(Args) { return met(sethostname("owned", 5)); }

void* thread_body(void* value) {
  *static_cast<int*>(value) += 1;
  return nullptr;
}

// The allowed counterpart of the clone probes: threads and processes work.
int try_thread(Args) {
  int value = 0;
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, thread_body, &value);
  if (error != 0) return error;
  pthread_join(thread, nullptr);
  return value == 1 ? 0 : EIO;
}

int try_fork(Args) {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) _exit(0);
  return reap(child);
}

constexpr Probe kProbes[] = {
    {"unshare", try_unshare, "NAME: unshares one namespace"},
    {"clone_flag", try_clone_flag, "NAME: clones a child into a new namespace"},
    {"clone3", try_clone3, "[NAME]: clone3, with a namespace flag or plain"},
    {"setns", try_setns, "PATH: enters the namespace at PATH"},
    {"ns_ids", print_namespaces, "prints the namespaces of this process"},
    {"hostname", print_hostname, "prints the host name"},
    {"sethostname", try_sethostname, "changes the host name"},
    {"thread", try_thread, "starts and joins a thread"},
    {"fork", try_fork, "forks and reaps a child"},
};

}  // namespace

std::span<const Probe> namespace_probes() { return kProbes; }

}  // namespace glovebox::probe
