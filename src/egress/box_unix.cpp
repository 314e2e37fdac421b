// Unix sockets, for a broker that is the same user as the box and lets no call through.
//
// The path is looked up once, in the box's own tree, and the socket that was found is connected to.
// The broker may do to a path what the box may: they are the same user, and the mounts are the
// box's.

#include "base/file.h"
#include "egress/box.h"

#include <climits>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/un.h>

namespace glovebox::egress {
namespace {

constexpr std::chrono::milliseconds kRetry{5};
constexpr std::size_t kPathAt = offsetof(sockaddr_un, sun_path);

UniqueFd open_path_inside(pid_t thread, std::string path) {
  if (path.front() != '/') {
    std::array<char, PATH_MAX> here;
    const ssize_t length =
        ::readlink(fmt::format("/proc/{}/cwd", thread).c_str(), here.data(), here.size());
    if (length <= 0) return {};
    path = std::string(here.data(), static_cast<std::size_t>(length)) + "/" + path;
  }
  const UniqueFd root(
      ::open(fmt::format("/proc/{}/root", thread).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return {};
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how))));
}

int connect_raw(int socket, const sockaddr_un& address, std::size_t length) {
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(socket, generic, static_cast<socklen_t>(length)) == 0 ? 0 : errno;
}

// Abstract names belong to the socket's network, which is the box's. Other families are the
// kernel's to refuse.
int connect_unix(const Attempt& attempt) {
  sockaddr_un address{};
  const std::size_t length = attempt.unix_address.size();
  if (length < sizeof(sa_family_t) || length > sizeof(address)) return EINVAL;
  std::memcpy(&address, attempt.unix_address.data(), length);
  const int socket = attempt.original.get();
  if (address.sun_family != AF_UNIX || length <= kPathAt || address.sun_path[0] == '\0') {
    return connect_raw(socket, address, length);
  }
  const std::string path(address.sun_path, ::strnlen(address.sun_path, length - kPathAt));
  const UniqueFd found = open_path_inside(attempt.call.thread, path);
  if (!found) return errno;
  sockaddr_un by_number{};
  by_number.sun_family = AF_UNIX;
  const std::string name = fmt::format("/proc/self/fd/{}", found.get());
  std::memcpy(by_number.sun_path, name.c_str(), name.size());
  return connect_raw(socket, by_number, kPathAt + name.size() + 1);
}

}  // namespace

// A listener whose queue is full is asked again until it has room, as the kernel would wait.
void Box::on_unix_connect(Attempt attempt) {
  const int flags = ::fcntl(attempt.original.get(), F_GETFL);
  // Cannot fail on a socket that is open.
  if (attempt.blocks) (void)::fcntl(attempt.original.get(), F_SETFL, flags | O_NONBLOCK);
  const int error = connect_unix(attempt);
  if (attempt.blocks) (void)::fcntl(attempt.original.get(), F_SETFL, flags);
  const std::uint64_t id = attempt.call.id;
  if (error != EAGAIN || !attempt.blocks) return void(calls_->answer(id, 0, error));
  if (!calls_->still_waits(id) || refuse_to_wait(attempt)) return;
  Waiting waiting;
  waiting.attempt = std::move(attempt);
  waiting.place = take_place();
  waiting.deadline = services_.poller.call_at(Poller::Clock::now() + kRetry, [this, id] {
    auto node = waiting_.extract(id);
    if (node.empty()) return;
    node.mapped().place.reset();
    on_unix_connect(std::move(node.mapped().attempt));
  });
  waiting_.emplace(id, std::move(waiting));
}

}  // namespace glovebox::egress
