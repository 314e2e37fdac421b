// A unix socket of the host that tells whether a client connected.
#pragma once

#include "base/unique_fd.h"

#include <string>

namespace glovebox::test {

class HostSocket {
 public:
  // `type` is SOCK_STREAM, SOCK_SEQPACKET or SOCK_DGRAM. A name that begins with a NUL byte is
  // abstract; another is a path, which everybody may connect to. Throws when it cannot be made.
  HostSocket(const std::string& name, int type);

  bool was_reached() const;

 private:
  UniqueFd fd_;
};

}  // namespace glovebox::test
