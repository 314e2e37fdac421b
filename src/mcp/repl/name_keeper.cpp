#include "mcp/repl/name_keeper.h"

#include "base/file.h"
#include "base/pidfd.h"
#include "base/pipe.h"
#include "mcp/repl/placeholders.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::mcp {
namespace {

constexpr std::size_t kMaxMessage = 4'096;  // a path

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code problem;  // a process that is gone has none
  const std::string tasks = fmt::format("/proc/{}/task", parent);
  for (const auto& task : std::filesystem::directory_iterator(tasks, problem)) {
    const auto listed = read_file(task.path().string() + "/children");
    std::istringstream words(listed.value_or(""));
    for (pid_t child = 0; words >> child;) children.push_back(child);
  }
  return children;
}

// What one message brings: a path, or a process.
struct Message {
  std::string path;
  UniqueFd process;
};

// Nothing: the server is gone.
std::optional<Message> receive(BorrowedFd socket) {
  std::array<char, kMaxMessage> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  struct iovec data{text.data(), text.size()};
  struct msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return std::nullopt;
  Message message;
  const struct cmsghdr* first = CMSG_FIRSTHDR(&header);
  if (first == nullptr) {
    message.path.assign(text.data(), static_cast<std::size_t>(size));
    return message;
  }
  int process = -1;
  std::memcpy(&process, CMSG_DATA(first), sizeof process);
  message.process = UniqueFd(process);
  return message;
}

void wait_for_end(const UniqueFd& process) {
  struct pollfd watched{process.get(), POLLIN, 0};
  while (::poll(&watched, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<void> NameKeeper::start() {
  TRY(SocketPair pair, open_socket_pair(SOCK_SEQPACKET));
  socket_ = std::move(pair.ours);
  std::vector<char*> words;
  words.reserve(command_.size() + 1);
  for (std::string& word : command_) words.push_back(word.data());
  words.push_back(nullptr);
  std::array<char*, 1> no_variables{nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair.theirs.get(), 0);
  // Nothing of the server's: its client waits for the end of its output.
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  errno = ::posix_spawn(&pid, words[0], &actions, nullptr, words.data(), no_variables.data());
  const int problem = errno;
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return fail_os(problem, "start the process that gives held names free");
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return {};
  return fail(Code::Os, "the process that gives held names free has ended ({})", status);
}

Result<void> NameKeeper::send(const std::string& path, BorrowedFd process) {
  std::string text = path.empty() ? std::string("p") : path;
  struct iovec data{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  struct msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (path.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    struct cmsghdr* first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = process.get();
    std::memcpy(CMSG_DATA(first), &number, sizeof number);
  }
  if (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL) >= 0) return {};
  return fail_os(errno, "tell the process that gives held names free");
}

Result<void> NameKeeper::add_name(const std::string& path) {
  if (command_.empty()) return {};
  names_.insert(path);
  if (socket_ && send(path, BorrowedFd(-1))) return {};
  // The first name, or the process was killed.
  TRY_VOID(start());
  for (const std::string& name : names_) TRY_VOID(send(name, BorrowedFd(-1)));
  return {};
}

// A box's first process is the child of this one's launcher.
Result<void> NameKeeper::add_boxes() {
  if (!socket_) return {};
  std::size_t found = 0;
  for (const pid_t launcher : children_of(::getpid())) {
    for (const pid_t box : children_of(launcher)) {
      const auto process = open_pidfd(box);
      if (!process) continue;  // it has ended
      TRY_VOID(send("", *process));
      ++found;
    }
  }
  if (found > 0) return {};
  return fail(Code::Os, "the first process of the box is not to be found in /proc");
}

int keep_names(BorrowedFd socket) {
  // Not a child of the server, and in no session of its terminal: what ends those leaves this.
  const pid_t detached = ::fork();
  if (detached != 0) return detached < 0 ? 1 : 0;
  (void)::setsid();
  if (::chdir("/") != 0) return 1;  // no directory is in use because of it
  std::set<std::string> names;
  std::vector<UniqueFd> boxes;
  while (std::optional<Message> message = receive(socket)) {
    if (message->process) {
      boxes.push_back(std::move(message->process));
    } else {
      names.insert(std::move(message->path));
    }
  }
  for (const UniqueFd& box : boxes) wait_for_end(box);
  for (const std::string& name : names) remove_placeholder(name);
  return 0;
}

}  // namespace glovebox::mcp
