// Using too much: processes, memory, disk, output, processor time. A probe that is stopped by an
// errno reports it; one that is stopped by the box never gets to report.
#include "probe.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

constexpr std::size_t kMebibyte = 1 << 20;

// Forks until the kernel refuses or LIMIT children exist, says how many, and ends them.
int count_forks(Args args) {
  const long limit = number(args, 0);
  std::vector<pid_t> children;
  int error = 0;
  while (static_cast<long>(children.size()) < limit) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    if (child < 0) {
      error = errno;
      break;
    }
    children.push_back(child);
  }
  say("forked %zu", children.size());
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return error;
}

// Every process forks without pause and ignores what can be ignored. Where nothing stops it, it
// ends itself after a while, so that a broken box does not take the machine with it.
int fork_bomb(Args) {
  constexpr time_t kLongestLife = 20;
  const time_t start = time(nullptr);
  say("bomb");
  for (int signal_number = 1; signal_number < 32; ++signal_number) {
    signal(signal_number, SIG_IGN);
  }
  while (time(nullptr) < start + kLongestLife) (void)fork();  // a refusal is part of the game
  return 0;
}

// Children that are never reaped: zombies count against the limit too.
int zombie_bomb(Args args) {
  const long limit = number(args, 0);
  for (long made = 0; made < limit; ++made) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child < 0) {
      const int error = errno;
      say("made %ld", made);
      return error;
    }
  }
  say("made %ld", limit);
  return 0;
}

void* wait_for_ever(void*) {
  for (;;) pause();
}

int count_threads(Args args) {
  const long limit = number(args, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{64} << 10);
  for (long made = 0; made < limit; ++made) {
    pthread_t thread{};
    const int error = pthread_create(&thread, &attributes, wait_for_ever, nullptr);
    if (error != 0) {
      say("started %ld", made);
      return error;
    }
  }
  say("started %ld", limit);
  return 0;
}

int hog_heap(std::size_t mebibytes) {
  for (std::size_t i = 0; i < mebibytes; ++i) {
    void* block =
        mmap(nullptr, kMebibyte, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return errno;
    std::memset(block, 1, kMebibyte);
  }
  return 0;
}

int fill(int fd, std::size_t mebibytes) {
  const std::string block(kMebibyte, 'x');
  for (std::size_t i = 0; i < mebibytes; ++i) {
    for (std::size_t done = 0; done < block.size();) {
      const ssize_t count = write(fd, block.data() + done, block.size() - done);
      if (count < 0) {
        const int error = errno;
        say("filled %zu MiB", i);
        return error;
      }
      done += static_cast<std::size_t>(count);
    }
  }
  return 0;
}

int hog_file(const char* path, std::size_t mebibytes) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  return fill(fd, mebibytes);
}

int hog_memfd(std::size_t mebibytes) {
  const int fd = memfd_create("hog", MFD_CLOEXEC);
  if (fd < 0) return errno;
  return fill(fd, mebibytes);
}

// Buffers that belong to the kernel: each pair is filled until it would block.
int hog_pairs(std::size_t mebibytes, int (*make)(int[2])) {
  const std::string block(std::size_t{64} << 10, 'x');
  std::size_t total = 0;
  while (total < mebibytes * kMebibyte) {
    int ends[2];
    if (make(ends) != 0) {
      const int error = errno;
      say("held %zu KiB", total / 1024);
      return error;
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    for (ssize_t count = 0; (count = write(ends[1], block.data(), block.size())) > 0;) {
      total += static_cast<std::size_t>(count);
    }
  }
  return 0;
}

int make_pipe(int ends[2]) { return pipe(ends); }
int make_sockets(int ends[2]) { return socketpair(AF_UNIX, SOCK_STREAM, 0, ends); }

int hog_memory(Args args) {
  const std::string kind = text(args, 0);
  const auto mebibytes = static_cast<std::size_t>(number(args, 1));
  if (kind == "heap") return hog_heap(mebibytes);
  if (kind == "memfd") return hog_memfd(mebibytes);
  if (kind == "pipes") return hog_pairs(mebibytes, make_pipe);
  if (kind == "sockets") return hog_pairs(mebibytes, make_sockets);
  return hog_file(kind.c_str(), mebibytes);
}

int hold_memory(Args args) {
  const int error = hog_memory(args);
  if (error != 0) return error;
  say("holding");
  for (;;) pause();
}

int fill_disk(Args args) {
  return hog_file(text(args, 0), static_cast<std::size_t>(number(args, 1)));
}

int fill_inodes(Args args) {
  const std::string dir = text(args, 0);
  const long limit = number(args, 1);
  for (long made = 0; made < limit; ++made) {
    const std::string path = dir + "/" + std::to_string(made);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
      const int error = errno;
      say("made %ld", made);
      return error;
    }
    close(fd);
  }
  say("made %ld", limit);
  return 0;
}

// A file that claims a size without using it. Sparse files are allowed and cost nothing.
int make_sparse(Args args) {
  const int fd = open(text(args, 0), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  return met(ftruncate(fd, static_cast<off_t>(number(args, 1)) * static_cast<off_t>(kMebibyte)));
}

int flood_output(Args args) {
  const int fd = args.size() > 1 ? static_cast<int>(number(args, 1)) : 1;
  return fill(fd, static_cast<std::size_t>(number(args, 0)));
}

// Burns processor time; MILLISECONDS 0 means for ever.
int spin(Args args) {
  const long limit = number(args, 0);
  timespec start{}, now{};
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (;;) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    const long passed =
        (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
    if (limit != 0 && passed >= limit) return 0;
  }
}

int print_rlimits(Args) {
  struct Named {
    const char* name;
    int which;
  };
  for (const Named& limit : {Named{"core", RLIMIT_CORE}, Named{"nofile", RLIMIT_NOFILE},
                             Named{"nproc", RLIMIT_NPROC}, Named{"fsize", RLIMIT_FSIZE},
                             Named{"stack", RLIMIT_STACK}, Named{"memlock", RLIMIT_MEMLOCK}}) {
    rlimit value{};
    if (getrlimit(static_cast<__rlimit_resource>(limit.which), &value) != 0) return errno;
    say("rlimit %s %lld %lld", limit.name, static_cast<long long>(value.rlim_cur),
        static_cast<long long>(value.rlim_max));
  }
  return 0;
}

int raise_rlimit(Args) {
  rlimit value{};
  if (getrlimit(RLIMIT_NOFILE, &value) != 0) return errno;
  value.rlim_max += 1;
  return met(setrlimit(RLIMIT_NOFILE, &value));
}

int count_open_files(Args args) {
  const long limit = number(args, 0);
  for (long made = 0; made < limit; ++made) {
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) {
      const int error = errno;
      say("opened %ld", made);
      return error;
    }
  }
  say("opened %ld", limit);
  return 0;
}

// Dies by SIGSEGV with a secret in memory, in the directory named.
int dump_core(Args args) {
  if (chdir(text(args, 0)) != 0) return errno;
  static volatile char secret[64] = "glovebox-core-canary";
  say("crashing with %c", secret[0]);
  rlimit all{RLIM_INFINITY, RLIM_INFINITY};
  (void)setrlimit(RLIMIT_CORE, &all);  // refused in a box; the attack would try
  signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
  return EIO;
}

// Makes inotify instances until the kernel refuses, says how many, and keeps them for a while if
// asked.
int count_inotify(Args args) {
  const long limit = number(args, 0);
  long made = 0;
  while (made < limit && inotify_init1(IN_CLOEXEC) >= 0) ++made;
  const int error = made < limit ? errno : 0;
  say("made %ld", made);
  while (args.size() > 1) pause();
  return error;
}

// EBADE when more than half of the inotify instances that a user may have can be made: the rest of
// what the caller runs would have none left.
int check_inotify_share(Args) {
  long all = 0;
  FILE* file = std::fopen("/proc/sys/fs/inotify/max_user_instances", "re");
  if (file == nullptr) return errno;
  const bool is_known = std::fscanf(file, "%ld", &all) == 1;
  std::fclose(file);
  if (!is_known) return EIO;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);  // without it the count may end early
  }
  long made = 0;
  while (made <= all && inotify_init1(IN_CLOEXEC) >= 0) ++made;
  say("made %ld of %ld", made, all);
  return made > all / 2 ? EBADE : 0;
}

// DIR LIMIT: watches that many names of DIR, which it makes, until the kernel refuses.
int count_watches(Args args) {
  const std::string base = text(args, 0);
  const long limit = number(args, 1);
  const int instance = inotify_init1(IN_CLOEXEC);
  if (instance < 0) return errno;
  long made = 0;
  int error = 0;
  for (; made < limit && error == 0; ++made) {
    const std::string path = base + "/" + std::to_string(made);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    close(fd);
    if (inotify_add_watch(instance, path.c_str(), IN_OPEN) >= 0) continue;
    error = errno;
    break;
  }
  say("watched %ld", made);
  return error;
}

// Queues signals to itself that it does not take, until the kernel refuses.
int count_signals(Args args) {
  const long limit = number(args, 0);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGRTMIN);
  if (sigprocmask(SIG_BLOCK, &blocked, nullptr) != 0) return errno;
  long sent = 0;
  while (sent < limit && sigqueue(getpid(), SIGRTMIN, sigval{}) == 0) ++sent;
  const int error = sent < limit ? errno : 0;
  say("sent %ld", sent);
  return error;
}

constexpr Probe kProbes[] = {
    {"inotify_fill", count_inotify, "LIMIT [hold]: makes inotify instances until refused"},
    {"inotify_share", check_inotify_share, "checks that it cannot take most inotify instances"},
    {"watch_fill", count_watches, "DIR LIMIT: makes and watches files until refused"},
    {"signal_fill", count_signals, "LIMIT: queues signals to itself until refused"},
    {"forks", count_forks, "LIMIT: forks children that wait until the kernel refuses"},
    {"fork_bomb", fork_bomb, "forks for ever"},
    {"zombies", zombie_bomb, "LIMIT: makes children that nobody reaps"},
    {"thread_bomb", count_threads, "LIMIT: starts threads until the kernel refuses"},
    {"memory_hog", hog_memory, "heap|memfd|pipes|sockets|PATH MIB: uses memory"},
    {"memory_hold", hold_memory, "KIND MIB: uses memory and keeps it"},
    {"disk_fill", fill_disk, "PATH MIB: writes a file"},
    {"inode_fill", fill_inodes, "DIR LIMIT: makes empty files"},
    {"sparse", make_sparse, "PATH MIB: makes a sparse file"},
    {"output_flood", flood_output, "MIB [FD]: writes to stdout"},
    {"spin", spin, "MS: burns processor time, for ever if 0"},
    {"rlimits", print_rlimits, "prints resource limits"},
    {"raise_rlimit", raise_rlimit, "raises a hard limit"},
    {"open_files", count_open_files, "LIMIT: opens files until the kernel refuses"},
    {"core_dump", dump_core, "DIR: crashes there with a secret in memory"},
};

}  // namespace

std::span<const Probe> resource_probes() { return kProbes; }

}  // namespace glovebox::probe
