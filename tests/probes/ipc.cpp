// Things that two boxes could meet in: shared memory, message queues, semaphores, locks, watches.
#include "probe.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <mqueue.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

int make_shm(Args args) {
  const int fd = shm_open(text(args, 0), O_RDWR | O_CREAT | O_EXCL, 0666);
  if (fd < 0) return errno;
  return met(write(fd, "secret", 6));
}

int find_shm(Args args) { return met(shm_open(text(args, 0), O_RDONLY, 0)); }

int make_sysv(Args args) {
  const auto key = static_cast<key_t>(number(args, 0));
  if (shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666) < 0) return errno;
  if (msgget(key, IPC_CREAT | IPC_EXCL | 0666) < 0) return errno;
  return met(semget(key, 1, IPC_CREAT | IPC_EXCL | 0666));
}

// 0 when any of the three kinds with this key is there.
int find_sysv(Args args) {
  const auto key = static_cast<key_t>(number(args, 0));
  if (shmget(key, 0, 0) >= 0 || msgget(key, 0) >= 0 || semget(key, 0, 0) >= 0) return 0;
  return errno;
}

int make_mqueue(Args args) {
  mq_attr attributes{};
  attributes.mq_maxmsg = 1;
  attributes.mq_msgsize = 16;
  return met(mq_open(text(args, 0), O_RDWR | O_CREAT | O_EXCL, 0666, &attributes));
}

int find_mqueue(Args args) { return met(mq_open(text(args, 0), O_RDONLY)); }

// Locks a file that it may only read. On a shared inode that is a signal to others.
int lock_file(Args args) {
  const int fd = open(text(args, 0), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  return met(flock(fd, LOCK_EX | LOCK_NB));
}

// Locks and stays, telling when it holds the lock.
int hold_lock(Args args) {
  const int fd = open(text(args, 0), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno;
  say("holding");
  for (;;) pause();
}

int take_lease(Args args) {
  const int fd = open(text(args, 0), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  return met(fcntl(fd, F_SETLEASE, F_RDLCK));
}

int watch_file(Args args) {
  const int fd = inotify_init1(IN_CLOEXEC);
  if (fd < 0) return errno;
  return met(inotify_add_watch(fd, text(args, 0), IN_ACCESS | IN_OPEN));
}

constexpr Probe kProbes[] = {
    {"shm_make", make_shm, "NAME: makes POSIX shared memory"},
    {"shm_find", find_shm, "NAME: opens POSIX shared memory"},
    {"sysv_make", make_sysv, "KEY: makes System V memory, queue and semaphore"},
    {"sysv_find", find_sysv, "KEY: looks for any of the three"},
    {"mqueue_make", make_mqueue, "NAME: makes a POSIX message queue"},
    {"mqueue_find", find_mqueue, "NAME: opens a POSIX message queue"},
    {"flock", lock_file, "PATH: locks a file it may only read"},
    {"flock_hold", hold_lock, "PATH: locks and waits for ever"},
    {"lease", take_lease, "PATH: takes a read lease"},
    {"inotify", watch_file, "PATH: watches who opens a file"},
};

}  // namespace

std::span<const Probe> ipc_probes() { return kProbes; }

}  // namespace glovebox::probe
