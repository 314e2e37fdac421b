#include "support/process.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::test {
namespace {

[[noreturn]] void give_up(const char* what) {
  dprintf(2, "test setup: %s: %s\n", what, strerrorname_np(errno));
  _exit(kSetupFailed);
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

void become(const Ids& ids) {
  if (geteuid() == 0 && setgroups(0, nullptr) != 0) give_up("setgroups");
  if (setresgid(ids.gid, ids.gid, ids.gid) != 0) give_up("setresgid");
  if (setresuid(ids.uid, ids.uid, ids.uid) != 0) give_up("setresuid");
}

void place_descriptors(const Launch& launch) {
  const int wanted[] = {launch.in, launch.out, launch.err};
  int moved[3];
  for (int i = 0; i < 3; ++i) {
    moved[i] = wanted[i] < 0 ? -1 : fcntl(wanted[i], F_DUPFD_CLOEXEC, 3);
    if (wanted[i] >= 0 && moved[i] < 0) give_up("dup");
  }
  for (int i = 0; i < 3; ++i) {
    if (moved[i] < 0) {
      close(i);
    } else if (dup2(moved[i], i) != i) {
      give_up("dup2");
    }
  }
  for (const int fd : launch.kept) {
    if (fcntl(fd, F_SETFD, 0) != 0) give_up("keep open");
  }
}

void take_terminal(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) give_up("terminal");
  if (setsid() < 0 || ioctl(fd, TIOCSCTTY, 0) != 0) give_up("controlling terminal");
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void run_child(const Launch& launch, char* const* argv, char* const* environment) {
  signal(SIGPIPE, SIG_DFL);
  if (!launch.terminal.empty()) take_terminal(launch.terminal);
  place_descriptors(launch);
  if (chdir(launch.directory.c_str()) != 0) give_up("chdir");
  if (launch.ids) become(*launch.ids);
  const bool filtered = !launch.refused_syscalls.empty() || !launch.answered_calls.empty();
  if (filtered && !install_outer_filter(launch.refused_syscalls, launch.answered_calls)) {
    give_up("filter");
  }
  execve(argv[0], argv, environment);
  give_up(argv[0]);
}

}  // namespace

Process::Process(const Launch& launch) {
  const std::vector<char*> argv = pointers(launch.argv);
  const std::vector<char*> environment = pointers(launch.environment);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) run_child(launch, argv.data(), environment.data());
  pidfd_ = open_pidfd(pid_);
}

Process::~Process() {
  if (status_) return;
  signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  // The process may have ended by itself; then there is nothing to signal.
  (void)syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0);
}

std::optional<int> Process::wait(Clock::time_point deadline) {
  if (status_) return status_;
  if (!ends_before(pidfd_, deadline)) return std::nullopt;
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("waitpid failed");
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return status_;
}

bool readable_before(BorrowedFd fd, Clock::time_point deadline) {
  pollfd waiting{fd.get(), POLLIN, 0};
  for (;;) {
    const int ready = poll(&waiting, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) throw std::runtime_error("poll failed");
  }
}

bool read_until(BorrowedFd fd, std::string_view wanted, Clock::time_point deadline,
                std::string& text) {
  char bytes[4096];
  while (text.find(wanted) == std::string::npos) {
    if (!readable_before(fd, deadline)) return false;
    const ssize_t count = read(fd.get(), bytes, sizeof bytes);
    if (count <= 0) return text.find(wanted) != std::string::npos;
    text.append(bytes, static_cast<std::size_t>(count));
  }
  return true;
}

bool ends_before(BorrowedFd pidfd, Clock::time_point deadline) {
  if (pidfd.get() < 0) return true;  // it was gone before it could be watched
  return readable_before(pidfd, deadline);
}

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<pid_t> descendants_of(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (std::isdigit(static_cast<unsigned char>(name.front())) == 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text, '\0');
    const auto after_name = text.rfind(')');
    if (after_name == std::string::npos) continue;
    const auto parent = static_cast<pid_t>(std::atoi(text.c_str() + after_name + 4));
    children.emplace(parent, static_cast<pid_t>(std::stoi(name)));
  }
  std::vector<pid_t> found{root};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto it = first; it != last; ++it) found.push_back(it->second);
  }
  found.erase(found.begin());
  return found;
}

}  // namespace glovebox::test
