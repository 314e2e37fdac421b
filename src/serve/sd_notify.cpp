#include "serve/sd_notify.h"

#include "base/unique_fd.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>

namespace glovebox::serve {

Result<void> notify_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (*path != '/' && *path != '@')) return {};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof(address.sun_path)) return fail(Code::Invalid, "$NOTIFY_SOCKET is too long");
  std::memcpy(address.sun_path, path, length);
  if (*path == '@') address.sun_path[0] = '\0';  // an abstract one
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_os(errno, "make a socket");
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  const ssize_t sent = ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), size);
  if (sent < 0) return fail_os(errno, "tell systemd '{}'", state);
  return {};
}

}  // namespace glovebox::serve
