#include "support/host_socket.h"

#include <cstddef>
#include <stdexcept>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace glovebox::test {

HostSocket::HostSocket(const std::string& name, int type)
    : fd_(socket(AF_UNIX, type | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool abstract = name.front() == '\0';
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0U : 1U));
  if (bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    throw std::runtime_error("cannot bind a unix socket");
  }
  if (type != SOCK_DGRAM && listen(fd_.get(), 8) != 0) throw std::runtime_error("listen");
  if (!abstract && chmod(name.c_str(), 0777) != 0) throw std::runtime_error("chmod");
}

bool HostSocket::was_reached() const {
  pollfd waiting{fd_.get(), POLLIN, 0};
  return poll(&waiting, 1, 0) > 0;
}

}  // namespace glovebox::test
