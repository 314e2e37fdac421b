#include "egress/kernel/connection_cutter.h"

#include "base/file.h"
#include "egress/kernel/outside_socket.h"
#include "egress/kernel/process_files.h"
#include "egress/kernel/seccomp_notify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <linux/kcmp.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace glovebox::egress {
namespace {

constexpr int kMostNumbersOfOne = 1 << 20;
constexpr std::size_t kMostLooksOutside = 1U << 20;

// The inode of "socket:[123]"; 0 when the link is another.
ino_t socket_in(std::string_view link) {
  constexpr std::string_view kPrefix = "socket:[";
  ino_t inode = 0;
  if (!link.starts_with(kPrefix)) return 0;
  link.remove_prefix(kPrefix.size());
  return std::from_chars(link.data(), link.data() + link.size(), inode).ec == std::errc() ? inode
                                                                                          : 0;
}

// How many descriptors the thread has room for: all its numbers are below.
int count_numbers(pid_t thread) {
  const auto status = read_file(fmt::format("/proc/{}/status", thread));
  const std::size_t at = status ? status->find("\nFDSize:") : std::string::npos;
  if (at == std::string::npos) return 0;
  return std::clamp(std::atoi(status->c_str() + at + 8), 0, kMostNumbersOfOne);
}

bool share_table(pid_t left, pid_t right) {
  return ::syscall(SYS_kcmp, left, right, KCMP_FILES, 0, 0) == 0;
}

// All threads of a process are in one pid namespace. Its first thread may have ended before the
// others, or hide its links.
bool is_inside(pid_t process, const std::string& pid_namespace) {
  const std::string of_process = pid_namespace_of(process);
  if (!of_process.empty()) return of_process == pid_namespace;
  bool inside = false;
  if (const UniqueFd threads = open_directory(fmt::format("/proc/{}/task", process))) {
    each_number(threads, [&](pid_t thread, const char*) {
      inside = pid_namespace_of(thread) == pid_namespace;
      return inside ? Walk::Stop : Walk::On;
    });
  }
  return inside;
}

// Calls use(process) for all there are.
template <class Use>
void each_process(Use use) {
  const UniqueFd processes = open_directory("/proc");
  if (!processes) return;
  each_number(processes, [&](pid_t process, const char*) { return use(process); });
}

enum class Task : std::uint8_t { ShutDown, Find };

// Looks through tables of descriptors until all are found, or so many numbers were looked at.
class Search {
 public:
  Search(Task task, std::span<const WantedSocket> wanted, std::size_t most)
      : task_(task), left_(most) {
    for (const WantedSocket& socket : wanted) wanted_.emplace(socket.inode, socket.cookie);
  }

  const std::set<std::uint64_t>& found() const { return found_; }
  Walk state() const { return left_ == 0 || wanted_.empty() ? Walk::Stop : Walk::On; }

  // In all the tables that the process has. Each is one thread's at least.
  void look_in(pid_t process) {
    std::vector<pid_t> tables;
    const UniqueFd threads = open_directory(fmt::format("/proc/{}/task", process));
    if (!threads) return;  // it has ended, and what it had open is closed
    each_number(threads, [&](pid_t thread, const char*) {
      const bool known = std::ranges::any_of(tables, [&](pid_t other) {
        spend();
        return share_table(other, thread);
      });
      if (known) return state();
      tables.push_back(thread);
      look_in_table(thread);
      return state();
    });
  }

 private:
  void spend() { left_ -= left_ > 0 ? 1 : 0; }

  void look_in_table(pid_t thread) {
    process_ = open_process(thread);
    const UniqueFd directory = open_directory(fmt::format("/proc/{}/fd", thread));
    if (!directory) return try_every_number(thread);
    each_number(directory, [&](int number, const char* name) {
      spend();
      std::array<char, 64> target;
      const ssize_t length = ::readlinkat(directory.get(), name, target.data(), target.size());
      const ino_t inode =
          socket_in({target.data(), length < 0 ? 0 : static_cast<std::size_t>(length)});
      const auto meant = wanted_.find(inode);
      if (meant == wanted_.end()) return state();
      if (task_ == Task::Find) take(meant);
      if (task_ == Task::ShutDown) shut_down(number);
      return state();
    });
  }

  void try_every_number(pid_t thread) {
    const bool may = process_ && (fetch_descriptor(process_, 0) || errno != EPERM);
    const int numbers = may && task_ == Task::ShutDown ? count_numbers(thread) : 0;
    for (int number = 0; number < numbers && state() == Walk::On; ++number) {
      spend();
      shut_down(number);
    }
  }

  // What the number means may have changed since it was found: the copy is looked at.
  void shut_down(int number) {
    const UniqueFd socket = process_ ? fetch_descriptor(process_, number) : UniqueFd();
    struct stat info{};
    if (!socket || ::fstat(socket.get(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
    const auto meant = wanted_.find(info.st_ino);
    if (meant == wanted_.end() || cookie_of(socket) != meant->second) return;
    if (::shutdown(socket.get(), SHUT_RDWR) == 0) take(meant);
  }

  void take(std::unordered_map<ino_t, std::uint64_t>::iterator meant) {
    found_.insert(meant->second);
    wanted_.erase(meant);
  }

  Task task_;
  std::size_t left_;
  std::unordered_map<ino_t, std::uint64_t> wanted_;  // cookies by inode
  std::set<std::uint64_t> found_;                    // cookies
  UniqueFd process_;                                 // whose table is being looked through
};

}  // namespace

std::string pid_namespace_of(pid_t thread) {
  std::array<char, 64> link;
  const ssize_t length =
      ::readlink(fmt::format("/proc/{}/ns/pid", thread).c_str(), link.data(), link.size());
  return length <= 0 ? std::string() : std::string(link.data(), static_cast<std::size_t>(length));
}

std::set<std::uint64_t> shut_down_inside(const std::string& pid_namespace,
                                         std::span<const WantedSocket> sockets) {
  if (pid_namespace.empty() || sockets.empty()) return {};
  Search search(Task::ShutDown, sockets, kMostLooks);
  each_process([&](pid_t process) {
    if (is_inside(process, pid_namespace)) search.look_in(process);
    return search.state();
  });
  return search.found();
}

std::set<std::uint64_t> shut_down_anywhere(std::span<const WantedSocket> sockets) {
  if (sockets.empty()) return {};
  Search search(Task::ShutDown, sockets, kMostLooksOutside);
  each_process([&](pid_t process) {
    search.look_in(process);
    return search.state();
  });
  return search.found();
}

std::set<std::uint64_t> find_outside(const std::string& pid_namespace,
                                     std::span<const WantedSocket> sockets) {
  if (pid_namespace.empty() || sockets.empty()) return {};
  Search search(Task::Find, sockets, kMostLooksOutside);
  each_process([&](pid_t process) {
    if (!is_inside(process, pid_namespace)) search.look_in(process);
    return search.state();
  });
  return search.found();
}

}  // namespace glovebox::egress
