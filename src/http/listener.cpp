#include "http/listener.h"

#include <boost/asio/ip/address.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace glovebox::serve {
namespace {

namespace asio = boost::asio;

constexpr int kBacklog = 1'024;
constexpr int kFirstActivatedFd = 3;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Result<UniqueFd> open_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_os(errno, "make a socket");
  return fd;
}

Result<void> bind_and_listen(BorrowedFd fd, SocketAddress& address, std::string_view where) {
  if (::bind(fd.get(), address.get(), address.length) != 0) return fail_os(errno, "bind {}", where);
  if (::listen(fd.get(), kBacklog) != 0) return fail_os(errno, "listen on {}", where);
  return {};
}

Result<SocketAddress> unix_address(const std::string& path) {
  SocketAddress address;
  auto* name = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.empty() || path.size() >= sizeof(name->sun_path)) {
    return fail(Code::Invalid, "{}: the path of a unix socket has 1 to {} bytes", path,
                sizeof(name->sun_path) - 1);
  }
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path, path.data(), path.size());
  address.length = sizeof(sockaddr_un);
  return address;
}

// Removes what a service that ended without cleaning up left behind.
Result<void> clear_stale_socket(const std::string& path, SocketAddress& address) {
  struct stat known{};
  if (::lstat(path.c_str(), &known) != 0) {
    if (errno == ENOENT) return {};
    return fail_os(errno, "look at {}", path);
  }
  if (!S_ISSOCK(known.st_mode)) return fail(Code::Denied, "{}: is there and is no socket", path);
  TRY(const UniqueFd probe, open_socket(AF_UNIX));
  if (::connect(probe.get(), address.get(), address.length) == 0 || errno == EAGAIN) {
    return fail(Code::Denied, "{}: another service listens there", path);
  }
  if (errno != ECONNREFUSED) return fail_os(errno, "try {}", path);
  if (::unlink(path.c_str()) != 0) return fail_os(errno, "remove {}", path);
  return {};
}

Result<SocketAddress> address_of(BorrowedFd fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (::getsockname(fd.get(), address.get(), &address.length) != 0) {
    return fail_os(errno, "ask for the address of descriptor {}", fd.get());
  }
  return address;
}

std::string describe(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto* name = reinterpret_cast<const sockaddr_in*>(&address.storage);
    const asio::ip::address_v4 host(ntohl(name->sin_addr.s_addr));
    return fmt::format("{}:{}", host.to_string(), ntohs(name->sin_port));
  }
  if (address.storage.ss_family == AF_INET6) {
    const auto* name = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    asio::ip::address_v6::bytes_type bytes;
    std::memcpy(bytes.data(), &name->sin6_addr, bytes.size());
    return fmt::format("[{}]:{}", asio::ip::address_v6(bytes).to_string(), ntohs(name->sin6_port));
  }
  const auto* name = reinterpret_cast<const sockaddr_un*>(&address.storage);
  return name->sun_path[0] == '\0' ? "an abstract unix socket" : std::string(name->sun_path);
}

Result<std::shared_ptr<Listener>> adopt(asio::io_context& io, int number) {
  UniqueFd fd(number);
  int type = 0;
  socklen_t size = sizeof(type);
  if (::getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &type, &size) != 0 || type == 0) {
    return fail(Code::Invalid, "descriptor {} of $LISTEN_FDS is no listening socket", number);
  }
  (void)::fcntl(number, F_SETFD, FD_CLOEXEC);  // nothing but a closed descriptor makes this fail
  (void)::fcntl(number, F_SETFL, O_NONBLOCK);
  TRY(const SocketAddress address, address_of(fd));
  const SocketFamily family =
      address.storage.ss_family == AF_UNIX ? SocketFamily::Unix : SocketFamily::Tcp;
  return std::make_shared<Listener>(io, std::move(fd), family, describe(address));
}

int number_in_environment(const char* name) {
  const char* text = std::getenv(name);
  int number = 0;
  if (text == nullptr) return 0;
  const auto [end, problem] = std::from_chars(text, text + std::strlen(text), number);
  return problem == std::errc() && *end == '\0' ? number : 0;
}

SocketAddress to_socket_address(const asio::ip::address& host, std::uint16_t port) {
  SocketAddress address;
  if (host.is_v4()) {
    auto* name = reinterpret_cast<sockaddr_in*>(&address.storage);
    name->sin_family = AF_INET;
    name->sin_port = htons(port);
    name->sin_addr.s_addr = htonl(host.to_v4().to_uint());
    address.length = sizeof(sockaddr_in);
  } else {
    auto* name = reinterpret_cast<sockaddr_in6*>(&address.storage);
    name->sin6_family = AF_INET6;
    name->sin6_port = htons(port);
    const auto bytes = host.to_v6().to_bytes();
    std::memcpy(&name->sin6_addr, bytes.data(), bytes.size());
    address.length = sizeof(sockaddr_in6);
  }
  return address;
}

}  // namespace

Listener::~Listener() {
  if (!path_to_remove.empty()) (void)::unlink(path_to_remove.c_str());  // it may be gone already
}

Result<TcpAddress> parse_tcp_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return fail(Code::Invalid, "'{}': an address to listen on is HOST:PORT", text);
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  TcpAddress address;
  const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (problem != std::errc() || end != port.data() + port.size()) {
    return fail(Code::Invalid, "'{}': '{}' is no port", text, port);
  }
  boost::system::error_code no_address;
  const asio::ip::address parsed = asio::ip::make_address(std::string(host), no_address);
  if (no_address) {
    return fail(Code::Invalid, "'{}': '{}' is no address (names are not looked up)", text, host);
  }
  address.host = parsed.to_string();
  address.is_loopback = parsed.is_loopback();
  return address;
}

Result<std::shared_ptr<Listener>> listen_tcp(asio::io_context& io, const TcpAddress& at) {
  const asio::ip::address host = asio::ip::make_address(at.host);
  TRY(UniqueFd fd, open_socket(host.is_v4() ? AF_INET : AF_INET6));
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // only saves a wait
  SocketAddress address = to_socket_address(host, at.port);
  TRY_VOID(bind_and_listen(fd, address, fmt::format("{}:{}", at.host, at.port)));
  TRY(const SocketAddress bound, address_of(fd));
  return std::make_shared<Listener>(io, std::move(fd), SocketFamily::Tcp, describe(bound));
}

Result<std::shared_ptr<Listener>> listen_unix(asio::io_context& io, const std::string& path) {
  TRY(SocketAddress address, unix_address(path));
  TRY_VOID(clear_stale_socket(path, address));
  TRY(UniqueFd fd, open_socket(AF_UNIX));
  // The mode of the socket's file is that of the descriptor, less the umask; the descriptor's is
  // set first, so there is no moment at which others could connect.
  if (::fchmod(fd.get(), 0600) != 0) return fail_os(errno, "set the mode of {}", path);
  TRY_VOID(bind_and_listen(fd, address, path));
  auto listener = std::make_shared<Listener>(io, std::move(fd), SocketFamily::Unix, path);
  listener->path_to_remove = path;
  return listener;
}

Result<std::vector<std::shared_ptr<Listener>>> take_activated(asio::io_context& io) {
  const int pid = number_in_environment("LISTEN_PID");
  const int count = number_in_environment("LISTEN_FDS");
  (void)::unsetenv("LISTEN_PID");
  (void)::unsetenv("LISTEN_FDS");
  (void)::unsetenv("LISTEN_FDNAMES");
  std::vector<std::shared_ptr<Listener>> listeners;
  if (pid != ::getpid()) return listeners;
  for (int i = 0; i < count; ++i) {
    TRY(std::shared_ptr<Listener> listener, adopt(io, kFirstActivatedFd + i));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

bool is_reachable_from_outside(const Listener& listener) {
  if (listener.family == SocketFamily::Unix) return false;
  const auto parsed = parse_tcp_address(listener.name);
  return !parsed || !parsed->is_loopback;
}

Result<std::shared_ptr<asio::ssl::context>> load_tls(const std::string& certificate,
                                                     const std::string& key) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  ::SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  boost::system::error_code problem;
  problem = context->use_certificate_chain_file(certificate, problem);
  if (problem) return fail(Code::Invalid, "TLS certificate {}: {}", certificate, problem.message());
  problem = context->use_private_key_file(key, asio::ssl::context::pem, problem);
  if (problem) return fail(Code::Invalid, "TLS key {}: {}", key, problem.message());
  return context;
}

}  // namespace glovebox::serve
