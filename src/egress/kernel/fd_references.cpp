#include "egress/kernel/fd_references.h"

#include "base/file.h"
#include "egress/kernel/process_files.h"
#include "egress/kernel/seccomp_notify.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace glovebox::egress {
namespace {

constexpr std::string_view kEpollName = "anon_inode:[eventpoll]";

std::string read_info(pid_t thread, int number, std::size_t most) {
  const UniqueFd file(
      ::open(fmt::format("/proc/{}/fdinfo/{}", thread, number).c_str(), O_RDONLY | O_CLOEXEC));
  auto text = file ? read_fd(file, most) : Result<std::string>("");
  return text ? *std::move(text) : std::string();
}

bool has_close_flag(const std::string& info) {
  const std::size_t at = info.find("flags:");
  if (at == std::string::npos) return false;
  return (std::strtoul(info.c_str() + at + 6, nullptr, 8) & O_CLOEXEC) != 0;
}

// "tfd:        5 events:       19 data:                5  pos:0 ino:3a sdev:8", one line each.
void read_entries(const std::string& info, int epoll, ino_t inode,
                  const std::vector<Descriptor>& numbers, std::vector<EpollEntry>& entries) {
  for (std::size_t at = info.find("tfd:"); at != std::string::npos;
       at = info.find("tfd:", at + 1)) {
    EpollEntry entry;
    entry.epoll = epoll;
    std::uint64_t seen = 0;
    // Of the line alone: sscanf(3) looks for the end of what it is given first.
    const std::string line = info.substr(at, info.find('\n', at) - at);
    if (std::sscanf(line.c_str(),
                    "tfd: %d events: %" SCNx32 " data: %" SCNx64 " pos:%*d ino:%" SCNx64,
                    &entry.watched, &entry.events, &entry.data, &seen) != 4) {
      continue;
    }
    const bool known =
        std::ranges::find(numbers, entry.watched, &Descriptor::number) != numbers.end();
    if (seen == inode && known) entries.push_back(entry);
  }
}

// The number in an epoll's entry is the one that the caller of epoll_ctl has for the file. So
// a process has to have it under the program's number: a child with a copy of our descriptors, on
// our memory, that ends right after.
struct Registration {
  const std::vector<EpollEntry>* entries;
  const std::vector<int>* epolls;  // copies, by entry
  int socket;
  std::size_t done;
};

int put_at(int fd, int number) { return fd == number ? number : ::dup3(fd, number, O_CLOEXEC); }

int register_entries(void* argument) {
  auto* work = static_cast<Registration*>(argument);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);  // a number too high fails below
  }
  int highest = work->socket;
  for (const EpollEntry& entry : *work->entries) highest = std::max(highest, entry.watched);
  const int socket = ::fcntl(work->socket, F_DUPFD_CLOEXEC, highest + 1);
  for (std::size_t i = 0; i < work->entries->size() && socket >= 0; ++i) {
    const EpollEntry& entry = (*work->entries)[i];
    const int epoll = ::fcntl((*work->epolls)[i], F_DUPFD_CLOEXEC, highest + 1);
    epoll_event event{};
    event.events = entry.events;
    event.data.u64 = entry.data;
    if (epoll >= 0 && put_at(socket, entry.watched) == entry.watched &&
        ::epoll_ctl(epoll, EPOLL_CTL_ADD, entry.watched, &event) == 0) {
      ++work->done;
    }
  }
  return 0;
}

}  // namespace

// The flags are in the first bytes of it.
bool closes_on_exec(pid_t thread, int number) {
  std::array<char, 128> text{};
  const UniqueFd file(
      ::open(fmt::format("/proc/{}/fdinfo/{}", thread, number).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return false;
  return has_close_flag(text.data());
}

References find_references(pid_t thread, ino_t socket) {
  References found;
  const UniqueFd directory = open_directory(fmt::format("/proc/{}/fd", thread));
  if (!directory) return found;
  const std::string wanted = fmt::format("socket:[{}]", socket);
  std::vector<int> epolls;
  std::size_t count = 0;
  each_number(directory, [&](int number, const char* name) {
    if (++count > kMostNumbers) return Walk::Stop;
    std::array<char, 64> target;
    const ssize_t length = ::readlinkat(directory.get(), name, target.data(), target.size());
    const std::string_view link(target.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
    if (link == kEpollName && epolls.size() < kMostEpolls) epolls.push_back(number);
    if (link != wanted) return Walk::On;
    found.too_many = found.numbers.size() == kMostCopies;
    if (found.too_many) return Walk::Stop;
    found.numbers.push_back({number, closes_on_exec(thread, number)});
    return Walk::On;
  });
  if (found.too_many) return found;
  std::size_t left = kMostInfo;
  for (const int epoll : epolls) {
    const std::string info = read_info(thread, epoll, left);
    // One that is too long has cost as much, and says nothing.
    left -= std::min(left, info.empty() ? kMostInfo / 4 : info.size());
    read_entries(info, epoll, socket, found.numbers, found.entries);
  }
  return found;
}

std::size_t watch_instead(BorrowedFd process, const std::vector<EpollEntry>& entries,
                          BorrowedFd socket) {
  std::vector<UniqueFd> owned;
  std::vector<int> epolls;
  for (const EpollEntry& entry : entries) {
    owned.push_back(fetch_descriptor(process, entry.epoll));
    epolls.push_back(owned.back().get());
  }
  Registration work{&entries, &epolls, socket.get(), 0};
  alignas(16) static thread_local std::array<char, std::size_t{64} << 10> stack;
  const int pid =
      ::clone(register_entries, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK, &work);
  // It is ending: CLONE_VFORK waited. A signal (interrupter.h) must not leave it behind.
  while (pid > 0 && ::waitpid(pid, nullptr, static_cast<int>(__WCLONE)) < 0 && errno == EINTR) {
  }
  return work.done;
}

}  // namespace glovebox::egress
