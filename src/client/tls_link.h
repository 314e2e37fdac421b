// One TLS connection between two commands, each of which knows the other by its certificate.
//
// TLS 1.3 and nothing older. Both sides show a certificate of the authority that both were given,
// and neither says a word to a peer that has none: the side that connects also checks the name it
// meant to reach. A peer that stops talking is given up after a while. What comes from a peer is
// still untrusted bytes: the reader bounds them.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

struct ssl_st;
struct ssl_ctx_st;

namespace glovebox::app {

// Files in PEM form. The key is refused when another user than its owner can read it.
struct TlsIdentity {
  std::string certificate;  // with the chain up to the authority
  std::string key;
  std::string authority;  // whose certificates are believed
  std::string peer_name;  // a name that the peer's certificate must have; empty: any
};

// "HOST:PORT", "127.0.0.1:PORT" or "[::1]:PORT".
struct TlsAddress {
  std::string host;
  std::string port;
};
Result<TlsAddress> parse_tls_address(std::string_view text);

class TlsLink {
 public:
  // A peer that is silent for so long is gone.
  static constexpr std::chrono::seconds kPatience{30};

  static Result<TlsLink> connect(const TlsIdentity& identity, const TlsAddress& address);

  // For an answer that takes its time.
  Result<void> wait_longer(std::chrono::seconds patience);
  // All of it, or an error.
  Result<void> write(std::string_view bytes);
  // Exactly so many bytes; a connection that ends before is an error.
  Result<void> read(char* to, std::size_t size);
  // Up to and with a line feed, which is not returned. Longer than `most` is an error.
  Result<std::string> read_line(std::size_t most);

 private:
  friend class TlsListener;
  struct FreeSsl {
    void operator()(ssl_st* ssl) const;
  };
  using Ssl = std::unique_ptr<ssl_st, FreeSsl>;
  TlsLink(UniqueFd socket, Ssl ssl) : socket_(std::move(socket)), ssl_(std::move(ssl)) {}

  UniqueFd socket_;
  Ssl ssl_;
  std::chrono::seconds patience_ = kPatience;
};

class TlsListener {
 public:
  static Result<TlsListener> open(const TlsIdentity& identity, const TlsAddress& address);
  std::string address() const;  // as bound, with the port that was chosen
  // The next peer that can show who it is. The error is about one connection; there may be others.
  Result<TlsLink> accept();

 private:
  struct FreeContext {
    void operator()(ssl_ctx_st* context) const;
  };
  TlsListener() = default;

  UniqueFd socket_;
  std::unique_ptr<ssl_ctx_st, FreeContext> context_;
  std::string peer_name_;
};

}  // namespace glovebox::app
