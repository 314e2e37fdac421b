// What two boxes could share: things with names, secrets in memory and environment, randomness.
#include "probe.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::probe {
namespace {

int write_secret(int fd, const std::string& secret) {
  const bool written = fd >= 0 && write(fd, secret.data(), secret.size()) > 0;
  return written ? 0 : errno;
}

int listen_abstract(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) return -1;
  return listen(fd, 8) == 0 ? fd : -1;
}

// NAME SECRET KEY: keeps the secret in /tmp, in shared memory of both kinds, in its environment and
// memory, and behind an abstract socket; says "visited" for each who comes there.
int keep_secret(Args args) {
  const std::string name = text(args, 0), secret = text(args, 1);
  setenv("NEIGHBOUR_SECRET", secret.c_str(), 1);
  const std::string file = "/tmp/" + name, memory = "/" + name;
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC;
  const int locked = open(file.c_str(), flags, 0666);
  if (const int error = write_secret(locked, secret)) return error;
  if (flock(locked, LOCK_EX | LOCK_NB) != 0) return errno;
  if (const int error = write_secret(shm_open(memory.c_str(), flags, 0666), secret)) return error;
  const int id = shmget(static_cast<key_t>(number(args, 2)), 4096, IPC_CREAT | 0666);
  void* shared = id < 0 ? nullptr : shmat(id, nullptr, 0);
  if (id < 0 || shared == reinterpret_cast<void*>(-1)) return errno;
  std::strcpy(static_cast<char*>(shared), secret.c_str());
  shmctl(id, IPC_RMID, nullptr);  // it goes with the last who has it
  const int server = listen_abstract(name);
  if (server < 0) return errno;
  // Where there is no box around it, what has a name would stay.
  static std::string left_file, left_memory;
  left_file = file;
  left_memory = memory;
  struct sigaction action{};
  action.sa_handler = [](int) {
    unlink(left_file.c_str());
    shm_unlink(left_memory.c_str());
    _exit(0);
  };
  sigaction(SIGTERM, &action, nullptr);
  say("keeping");
  for (;;) {
    const int visitor = accept(server, nullptr, nullptr);
    if (visitor < 0) continue;
    say("visited");
    write_secret(visitor, secret);
    close(visitor);
  }
}

// NAME KEY: looks in every place where a neighbour keeps its secret, and prints what it finds. 0
// when there was anything.
int find_secret(Args args) {
  const std::string name = text(args, 0);
  int found = 0;
  char bytes[256];
  const auto show = [&](const char* where, int fd) {
    const ssize_t count = fd < 0 ? -1 : read(fd, bytes, sizeof bytes - 1);
    if (count <= 0) return;
    bytes[count] = '\0';
    say("%s %s", where, bytes);
    ++found;
  };
  show("file", open(("/tmp/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  show("memory", shm_open(("/" + name).c_str(), O_RDONLY, 0));
  const int id = shmget(static_cast<key_t>(number(args, 1)), 0, 0);
  const void* shared = id < 0 ? nullptr : shmat(id, nullptr, SHM_RDONLY);
  if (shared != nullptr && shared != reinterpret_cast<void*>(-1)) {
    say("system v %.64s", static_cast<const char*>(shared));
    ++found;
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) show("socket", fd);
  return found > 0 ? 0 : ENOENT;
}

// The environment and the command line of every process that can be seen.
int list_environments(Args) {
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return errno;
  while (const dirent* entry = readdir(proc)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    if (std::atoi(entry->d_name) == getpid()) continue;
    for (const char* kind : {"environ", "cmdline"}) {
      std::ifstream file(std::string("/proc/") + entry->d_name + "/" + kind);
      std::string words((std::istreambuf_iterator<char>(file)), {});
      for (char& each : words) {
        if (each == '\0') each = ' ';
      }
      if (!words.empty()) say("%s of %s: %s", kind, entry->d_name, words.c_str());
    }
  }
  closedir(proc);
  return 0;
}

void say_bytes(const char* name, const unsigned char* bytes, std::size_t size) {
  std::string digits;
  char two[3];
  for (std::size_t i = 0; i < size; ++i) {
    std::snprintf(two, sizeof two, "%02x", bytes[i]);
    digits += two;
  }
  say("%s = %s", name, digits.c_str());
}

// What no two boxes may have in common, one line each: NAME = VALUE.
int print_random(Args) {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return errno;
  say_bytes("getrandom", bytes, sizeof bytes);
  // The seed of stack protectors and of the C library.
  const auto* seed = reinterpret_cast<const unsigned char*>(getauxval(AT_RANDOM));
  if (seed != nullptr) say_bytes("seed", seed, sizeof bytes);
  std::ifstream device("/dev/urandom", std::ios::binary);
  device.read(reinterpret_cast<char*>(bytes), sizeof bytes);
  if (device) say_bytes("urandom", bytes, sizeof bytes);
  std::ifstream uuid("/proc/sys/kernel/random/uuid");
  std::string line;
  if (std::getline(uuid, line)) say("uuid = %s", line.c_str());
  return 0;
}

constexpr Probe kProbes[] = {
    {"keep_secret", keep_secret, "NAME SECRET KEY: keeps a secret wherever others might look"},
    {"find_secret", find_secret, "NAME KEY: looks for a neighbour's secret"},
    {"environments", list_environments, "prints environments and words of all processes"},
    {"random", print_random, "prints random numbers and seeds"},
};

}  // namespace

std::span<const Probe> neighbour_probes() { return kProbes; }

}  // namespace glovebox::probe
