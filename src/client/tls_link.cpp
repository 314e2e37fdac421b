// Blocking, and with OpenSSL itself: the blocking calls of Asio know no limit of time.
#include "client/tls_link.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/quantity.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace glovebox::app {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;
struct FreeCtx {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeCtx>;

// What OpenSSL has to say, the first of it.
std::string ssl_words() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code == 0) return "the connection was closed";
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  const char* reason = ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : "an error of TLS";
}

Result<void> check_key_file(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return fail_os(errno, "read --key {}", path);
  if ((facts.st_mode & 077U) == 0) return {};
  return fail(Code::Denied, "{}: others can read this key (chmod 600)", path);
}

Result<Context> make_context(const TlsIdentity& identity, const SSL_METHOD* method) {
  TRY_VOID(check_key_file(identity.key));
  ::ERR_clear_error();
  Context context(::SSL_CTX_new(method));
  if (!context) return fail(Code::Os, "TLS: {}", ssl_words());
  if (::SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) {
    return fail(Code::Os, "TLS 1.3: {}", ssl_words());
  }
  if (::SSL_CTX_use_certificate_chain_file(context.get(), identity.certificate.c_str()) != 1) {
    return fail(Code::Invalid, "--cert {}: {}", identity.certificate, ssl_words());
  }
  if (::SSL_CTX_use_PrivateKey_file(context.get(), identity.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ::SSL_CTX_check_private_key(context.get()) != 1) {
    return fail(Code::Invalid, "--key {}: {}", identity.key, ssl_words());
  }
  if (::SSL_CTX_load_verify_file(context.get(), identity.authority.c_str()) != 1) {
    return fail(Code::Invalid, "--ca {}: {}", identity.authority, ssl_words());
  }
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // Every connection shows its certificate anew.
  ::SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  if (::SSL_CTX_set_num_tickets(context.get(), 0) != 1) return fail(Code::Os, "{}", ssl_words());
  return context;
}

Result<Addresses> find_addresses(const TlsAddress& address, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const int problem = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &wanted, &found);
  if (problem != 0) {
    return fail(Code::NotFound, "{}:{}: {}", address.host, address.port, ::gai_strerror(problem));
  }
  return Addresses(found);
}

Result<void> bound_waits(BorrowedFd socket, std::chrono::seconds most) {
  const timeval patience{most.count(), 0};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(socket.get(), SOL_SOCKET, option, &patience, sizeof patience) != 0) {
      return fail_os(errno, "bound the wait for the other side");
    }
  }
  return {};
}

// The name, or the address, that the peer's certificate must be for.
Result<void> expect_name(SSL* ssl, const std::string& name) {
  if (name.empty()) return {};
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  const bool is_address = ::inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
                          ::inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
  ::SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const int set = is_address ? ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl), name.c_str())
                             : ::SSL_set1_host(ssl, name.c_str());
  if (set != 1) return fail(Code::Invalid, "'{}' is no name of a host", name);
  return {};
}

// Why a handshake failed: what was wrong with the peer's certificate, if that was it.
tl::unexpected<Error> refuse_peer(SSL* ssl) {
  const long verdict = ::SSL_get_verify_result(ssl);
  if (verdict != X509_V_OK) {
    return fail(Code::Denied, "the other side's certificate: {}",
                ::X509_verify_cert_error_string(verdict));
  }
  return fail(Code::Denied, "no TLS with the other side: {}", ssl_words());
}

tl::unexpected<Error> lost(SSL* ssl, int result, std::chrono::seconds patience) {
  const int why = ::SSL_get_error(ssl, result);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
    return fail(Code::Os, "the other side was silent for {} seconds", patience.count());
  }
  return fail(Code::Os, "the connection to the other side was lost: {}", ssl_words());
}

}  // namespace

void TlsLink::FreeSsl::operator()(ssl_st* ssl) const {
  // The last words may be needed by the peer, and its own are not.
  (void)::SSL_shutdown(ssl);
  ::SSL_free(ssl);
}
void TlsListener::FreeContext::operator()(ssl_ctx_st* context) const { ::SSL_CTX_free(context); }

Result<TlsAddress> parse_tls_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  TlsAddress address;
  if (colon != std::string_view::npos) {
    address.host = text.substr(0, colon);
    address.port = text.substr(colon + 1);
  }
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    address.host.clear();
  }
  const auto port = parse_count(address.port);
  if (address.host.empty() || !port || *port > 65535) {
    return fail(Code::Invalid, "'{}' is not HOST:PORT, such as 0.0.0.0:7100 or [::1]:7100", text);
  }
  return address;
}

Result<TlsLink> TlsLink::connect(const TlsIdentity& identity, const TlsAddress& address) {
  TRY(const Context context, make_context(identity, ::TLS_client_method()));
  TRY(const Addresses addresses, find_addresses(address, 0));
  UniqueFd socket;
  int problem = 0;
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    UniqueFd tried(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!tried) return fail_os(errno, "make a socket");
    TRY_VOID(bound_waits(tried, kPatience));
    if (::connect(tried.get(), each->ai_addr, each->ai_addrlen) == 0) {
      socket = std::move(tried);
      break;
    }
    problem = errno;
  }
  if (!socket) return fail_os(problem, "connect to {}:{}", address.host, address.port);
  Ssl ssl(::SSL_new(context.get()));
  if (!ssl || ::SSL_set_fd(ssl.get(), socket.get()) != 1) return fail(Code::Os, "{}", ssl_words());
  const std::string& name = identity.peer_name.empty() ? address.host : identity.peer_name;
  TRY_VOID(expect_name(ssl.get(), name));
  if (::SSL_connect(ssl.get()) != 1) return refuse_peer(ssl.get());
  return TlsLink(std::move(socket), std::move(ssl));
}

Result<void> TlsLink::wait_longer(std::chrono::seconds patience) {
  patience_ = patience;
  return bound_waits(socket_, patience);
}

Result<void> TlsLink::write(std::string_view bytes) {
  while (!bytes.empty()) {
    std::size_t sent = 0;
    const int result = ::SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent);
    if (result != 1) return lost(ssl_.get(), result, patience_);
    bytes.remove_prefix(sent);
  }
  return {};
}

Result<void> TlsLink::read(char* to, std::size_t size) {
  while (size > 0) {
    std::size_t got = 0;
    const int result = ::SSL_read_ex(ssl_.get(), to, size, &got);
    if (result != 1) return lost(ssl_.get(), result, patience_);
    to += got;
    size -= got;
  }
  return {};
}

Result<std::string> TlsLink::read_line(std::size_t most) {
  std::string line;
  while (true) {
    char each = 0;
    TRY_VOID(read(&each, 1));
    if (each == '\n') return line;
    if (line.size() == most) return fail(Code::Invalid, "the other side talks too much");
    line += each;
  }
}

Result<TlsListener> TlsListener::open(const TlsIdentity& identity, const TlsAddress& address) {
  TlsListener listener;
  TRY(Context context, make_context(identity, ::TLS_server_method()));
  listener.context_.reset(context.release());
  listener.peer_name_ = identity.peer_name;
  TRY(const Addresses addresses, find_addresses(address, AI_PASSIVE));
  listener.socket_ = UniqueFd(::socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.socket_) return fail_os(errno, "make a socket");
  const int yes = 1;
  (void)::setsockopt(listener.socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener.socket_.get(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      ::listen(listener.socket_.get(), 4) != 0) {
    return fail_os(errno, "listen on {}:{}", address.host, address.port);
  }
  return listener;
}

std::string TlsListener::address() const {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* generic = reinterpret_cast<sockaddr*>(&bound);
  if (::getsockname(socket_.get(), generic, &size) != 0 ||
      ::getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  const bool is_long = bound.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", is_long ? "[" : "", host.data(), is_long ? "]" : "", port.data());
}

Result<TlsLink> TlsListener::accept() {
  UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return fail_os(errno, "take a connection");
  TRY_VOID(bound_waits(socket, TlsLink::kPatience));
  TlsLink::Ssl ssl(::SSL_new(context_.get()));
  if (!ssl || ::SSL_set_fd(ssl.get(), socket.get()) != 1) return fail(Code::Os, "{}", ssl_words());
  TRY_VOID(expect_name(ssl.get(), peer_name_));
  if (::SSL_accept(ssl.get()) != 1) return refuse_peer(ssl.get());
  return TlsLink(std::move(socket), std::move(ssl));
}

}  // namespace glovebox::app
