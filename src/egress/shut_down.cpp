#include "egress/shut_down.h"

#include "base/file.h"
#include "egress/notifications.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/socket.h>
#include <sys/stat.h>

namespace glovebox::egress {
namespace {

namespace fs = std::filesystem;

constexpr int kMostNumbers = 1 << 20;
// States of a socket in the kernel's tables, in which bytes can come or connections be made.
constexpr unsigned kEstablished = 1;
constexpr unsigned kCloseWait = 8;
constexpr unsigned kListen = 10;

bool is_wanted(BorrowedFd socket, const std::vector<ino_t>& sockets) {
  struct stat info{};
  return ::fstat(socket.get(), &info) == 0 && S_ISSOCK(info.st_mode) &&
         std::ranges::find(sockets, info.st_ino) != sockets.end();
}

// What the number means may have changed since it was found: the copy is looked at again.
std::size_t shut_down_number(BorrowedFd process, int number, const std::vector<ino_t>& sockets) {
  const UniqueFd socket = fetch_descriptor(process, number);
  if (!socket || !is_wanted(socket, sockets)) return 0;
  return ::shutdown(socket.get(), SHUT_RDWR) == 0 ? 1 : 0;
}

// How many descriptors the process has room for: all its numbers are below.
int count_numbers(pid_t process) {
  const auto status = read_file(fmt::format("/proc/{}/status", process));
  const std::size_t at = status ? status->find("\nFDSize:") : std::string::npos;
  if (at == std::string::npos) return 0;
  return std::clamp(std::atoi(status->c_str() + at + 8), 0, kMostNumbers);
}

std::size_t try_every_number(pid_t pid, BorrowedFd process, const std::vector<ino_t>& sockets) {
  std::size_t count = 0;
  const int numbers = count_numbers(pid);
  for (int number = 0; number < numbers; ++number) {
    count += shut_down_number(process, number, sockets);
  }
  return count;
}

std::size_t shut_down_of(pid_t pid, const std::vector<ino_t>& sockets) {
  const UniqueFd process = open_process(pid);
  if (!process) return 0;  // it has ended, and what it had open is closed
  std::error_code problem;
  fs::directory_iterator entries(fmt::format("/proc/{}/fd", pid), problem);
  if (problem) return try_every_number(pid, process, sockets);
  std::size_t count = 0;
  for (; entries != fs::directory_iterator(); entries.increment(problem)) {
    if (problem) break;
    const std::string link = fs::read_symlink(entries->path(), problem).string();
    const bool meant = std::ranges::any_of(
        sockets, [&](ino_t inode) { return link == fmt::format("socket:[{}]", inode); });
    if (!meant) continue;
    const int number = std::atoi(entries->path().filename().c_str());
    count += shut_down_number(process, number, sockets);
  }
  return count;
}

}  // namespace

std::string pid_namespace_of(pid_t thread) {
  std::error_code ignored;
  return fs::read_symlink(fmt::format("/proc/{}/ns/pid", thread), ignored);
}

std::vector<ino_t> sockets_in_use_at(std::uint16_t port) {
  std::vector<ino_t> found;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      unsigned own = 0;
      unsigned state = 0;
      unsigned long inode = 0;
      const int read =
          std::sscanf(line.c_str(), "%*s %*[0-9A-Fa-f]:%X %*s %X %*s %*s %*s %*s %*s %lu", &own,
                      &state, &inode);
      if (read != 3 || own != port || inode == 0) continue;
      if (state == kEstablished || state == kCloseWait || state == kListen) found.push_back(inode);
    }
  }
  return found;
}

std::size_t shut_down_inside(const std::string& pid_namespace, const std::vector<ino_t>& sockets) {
  if (pid_namespace.empty() || sockets.empty()) return 0;
  std::size_t count = 0;
  std::error_code ignored;  // a process that has ended meanwhile has nothing open
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::atoi(name.c_str());
    if (pid_namespace_of(pid) == pid_namespace) count += shut_down_of(pid, sockets);
  }
  return count;
}

}  // namespace glovebox::egress
