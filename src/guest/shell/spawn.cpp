#include "guest/shell/spawn.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr int kCouldNotStart = 127;

// Everything the new process needs, laid out before vfork: it shares our memory until execve, so it
// only reads this and writes the one number.
struct Layout {
  std::vector<const char*> files;
  std::vector<char*> argv;
  std::vector<char*> env;
  const SpawnRequest* request = nullptr;
  volatile int os_errno = 0;
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

bool place_fd(int source, int number) {
  if (source != number) return ::dup2(source, number) == number;
  return ::fcntl(source, F_SETFD, 0) == 0;
}

bool set_up(const SpawnRequest& request) {
  if (::setsid() < 0) return false;
  for (int i = 0; i < 3; ++i) {
    if (!place_fd(request.stdio[static_cast<std::size_t>(i)], i)) return false;
  }
  if (request.extra_fd >= 0 && !place_fd(request.extra_fd, request.extra_number)) return false;
  if (request.terminal == SpawnRequest::Terminal::Controlling && ::ioctl(0, TIOCSCTTY, 0) != 0) {
    return false;
  }
  if (request.orphans == SpawnRequest::Orphans::Adopted &&
      ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return false;
  }
  if (!request.cwd.empty() && ::chdir(request.cwd.c_str()) != 0) return false;
  sigset_t none;
  sigemptyset(&none);
  return ::sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
}

[[noreturn]] void become_program(Layout& layout) {
  if (!set_up(*layout.request)) {
    layout.os_errno = errno;
    ::_exit(kCouldNotStart);
  }
  int worst = ENOENT;
  for (const char* file : layout.files) {
    ::execve(file, layout.argv.data(), layout.env.data());
    // As a shell, look on past what is not there or not allowed.
    if (errno == ENOENT || errno == ENOTDIR) continue;
    worst = errno;
    if (errno != EACCES) break;
  }
  layout.os_errno = worst;
  ::_exit(kCouldNotStart);
}

[[gnu::noinline]] pid_t start_process(Layout& layout) {
  const pid_t pid = ::vfork();  // NOLINT: the child only sets itself up and executes
  if (pid == 0) become_program(layout);
  return pid;
}

}  // namespace

Result<pid_t> spawn(const SpawnRequest& request) {
  Layout layout;
  layout.files.reserve(request.files.size());
  for (const std::string& file : request.files) layout.files.push_back(file.c_str());
  layout.argv = pointers_to(request.argv);
  layout.env = pointers_to(request.env);
  layout.request = &request;
  const pid_t pid = start_process(layout);
  if (pid < 0) return fail_os(errno, "make a process");
  const int os_errno = layout.os_errno;
  // The one that failed is reaped with the others.
  if (os_errno != 0) return fail_os(os_errno, "start {}", request.argv.front());
  return pid;
}

std::vector<std::string> candidates_for(std::string_view name, std::string_view path) {
  if (name.find('/') != std::string_view::npos) return {std::string(name)};
  std::vector<std::string> files;
  while (!name.empty()) {
    const std::size_t colon = path.find(':');
    const std::string_view directory = path.substr(0, colon);
    files.push_back(directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name));
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  return files;
}

std::string_view value_in(const std::vector<std::string>& env, std::string_view name) {
  for (const std::string_view entry : env) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

std::vector<std::string> merge_env(const std::vector<std::string>& base,
                                   const std::vector<std::string>& changes) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> merged;
  merged.reserve(base.size() + changes.size());
  for (const std::string& entry : base) {
    const bool changed = std::ranges::any_of(
        changes, [&](const std::string& change) { return name_of(change) == name_of(entry); });
    if (!changed) merged.push_back(entry);
  }
  merged.insert(merged.end(), changes.begin(), changes.end());
  return merged;
}

}  // namespace glovebox::guest
