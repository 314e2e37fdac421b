// Who may ask for what.
//
// A caller is known by a token (X-EXECD-ACCESS-TOKEN, or Authorization: Bearer), or on a unix
// socket by the uid that the kernel tells. What is kept of a token is its SHA-256; what a caller
// sends is hashed and compared in constant time with every token there is, so neither length nor
// place of the first difference shows.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "http/message.h"
#include "http/router.h"
#include "request/box_request.h"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::serve {

// A caller, and the most it may do.
struct Identity {
  std::string name;  // for logs and the audit: "token:ci", "uid:1000", "anonymous"
  std::set<Scope> scopes;
  // Everything created with it is cut down to this. Nothing: no bound.
  std::shared_ptr<const authority::AuthoritySet> ceiling;
  std::size_t max_sessions = 0;  // alive at a time; 0: no bound of its own
  // What the ceiling's policy says beside.
  std::optional<std::uint64_t> cpus_milli{};
  std::optional<WorkspaceMode> workspace{};

  bool may(Scope scope) const { return scopes.contains(scope) || scopes.contains(Scope::Admin); }
  // Lowers what a request asks for to the last two of these.
  void bound(session::BoxRequest& request) const;
};

class Auth {
 public:
  // `secret` is forgotten by the caller afterwards. Refused: an empty or short one.
  static constexpr std::size_t kShortestToken = 8;
  Result<void> add_token(std::string_view secret, Identity identity);
  // Callers of a unix socket with this uid need no token.
  void trust_uid(uid_t uid) { trusted_uids_.insert(uid); }
  // A browser's page is served only from these origins.
  void allow_origin(std::string origin) { origins_.insert(std::move(origin)); }

  bool has_tokens() const { return !tokens_.empty(); }

  // Who sent the request, or the refusal. Without any token everybody on a TCP socket is anonymous
  // and may do everything: the service refuses to listen beyond loopback then.
  Result<Identity, ApiError> identify(const Request& request) const;

  // The token of a name, as in Identity; null when there is none any more.
  const Identity* find_identity(std::string_view name) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Token {
    Digest digest;
    Identity identity;
  };

  const Identity* find_token(std::string_view secret) const;
  Result<void, ApiError> check_browser(const Request& request) const;

  std::vector<Token> tokens_;
  std::set<uid_t> trusted_uids_;
  std::set<std::string> origins_;
};

}  // namespace glovebox::serve
