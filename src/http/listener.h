// Listening sockets: TCP, unix, and those that a service manager hands over.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/ssl/context.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::serve {

enum class SocketFamily : std::uint8_t { Tcp, Unix };

// One listening socket. A unix socket that we made is removed when the listener goes.
struct Listener {
  Listener(boost::asio::io_context& io, UniqueFd fd, SocketFamily kind, std::string where)
      : descriptor(io, fd.release()), family(kind), name(std::move(where)) {}
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  boost::asio::posix::stream_descriptor descriptor;
  SocketFamily family;
  std::string name;                                // "127.0.0.1:44772", "/run/glovebox.sock"
  std::string path_to_remove;                      // unix sockets that we made
  std::shared_ptr<boost::asio::ssl::context> tls;  // TCP alone
};

// "127.0.0.1:44772", "[::1]:44772", "0.0.0.0:80". Addresses only: a name could lead anywhere.
struct TcpAddress {
  std::string host;
  std::uint16_t port = 0;
  bool is_loopback = false;
};
Result<TcpAddress> parse_tcp_address(std::string_view text);

Result<std::shared_ptr<Listener>> listen_tcp(boost::asio::io_context& io, const TcpAddress& at);
// Mode 0600 from birth. A socket on which no process listens any more is replaced; anything else at
// that path is an error.
Result<std::shared_ptr<Listener>> listen_unix(boost::asio::io_context& io, const std::string& path);
// Sockets of $LISTEN_FDS, when $LISTEN_PID is this process; both variables are removed.
Result<std::vector<std::shared_ptr<Listener>>> take_activated(boost::asio::io_context& io);
// Whether a listener is bound to something that other hosts can reach.
bool is_reachable_from_outside(const Listener& listener);

// TLS 1.2 or later, from PEM files.
Result<std::shared_ptr<boost::asio::ssl::context>> load_tls(const std::string& certificate,
                                                            const std::string& key);

}  // namespace glovebox::serve
