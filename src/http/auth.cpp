#include "http/auth.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <boost/asio/ip/address.hpp>

#include <algorithm>

namespace glovebox::serve {
namespace {

constexpr std::string_view kBearer = "Bearer ";

std::array<unsigned char, 32> digest_of(std::string_view secret) {
  std::array<unsigned char, 32> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), digest.data());
  return digest;
}

// The secret that a request carries; nothing when it carries none.
std::optional<std::string_view> secret_of(const Request& request) {
  if (const std::string* header = request.find_header("x-execd-access-token")) return *header;
  const std::string* header = request.find_header("authorization");
  if (header == nullptr || header->size() < kBearer.size()) return std::nullopt;
  const bool bearer = std::ranges::equal(
      std::string_view(*header).substr(0, kBearer.size()), kBearer,
      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  if (!bearer) return std::nullopt;
  return std::string_view(*header).substr(kBearer.size());
}

// Clients look for this text, and for this shape: the one error without a code.
ApiError unauthorized() {
  ApiError error{.status = 401,
                 .code = "UNAUTHORIZED",
                 .message = "invalid or missing header X-EXECD-ACCESS-TOKEN",
                 .more = {},
                 .headers = {{"WWW-Authenticate", "Bearer realm=\"glovebox\""}}};
  error.more["error"] = "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN";
  return error;
}

bool is_local_name(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') == std::string_view::npos ? 0 : host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  if (host == "localhost" || host.ends_with(".localhost")) return true;
  boost::system::error_code no_address;
  (void)boost::asio::ip::make_address(std::string(host), no_address);
  return !no_address;
}

const Identity& everybody() {
  static const Identity kEverybody{
      .name = "anonymous", .scopes = {Scope::Admin}, .ceiling = nullptr, .max_sessions = 0};
  return kEverybody;
}

}  // namespace

void Identity::bound(session::BoxRequest& request) const {
  if (cpus_milli) {
    request.cpus_milli = std::min(request.cpus_milli.value_or(*cpus_milli), *cpus_milli);
  }
  if (!workspace) return;
  request.most_workspace = std::min(request.most_workspace.value_or(*workspace), *workspace);
}

const Identity* Auth::find_identity(std::string_view name) const {
  const auto found = std::ranges::find_if(
      tokens_, [&](const Token& token) { return token.identity.name == name; });
  return found == tokens_.end() ? nullptr : &found->identity;
}

Result<void> Auth::add_token(std::string_view secret, Identity identity) {
  if (secret.size() < kShortestToken) {
    return fail(Code::Invalid, "{}: a token has at least {} characters", identity.name,
                kShortestToken);
  }
  const Digest digest = digest_of(secret);
  for (const Token& token : tokens_) {
    if (token.digest == digest) {
      return fail(Code::Invalid, "{} and {} have the same token", token.identity.name,
                  identity.name);
    }
  }
  tokens_.push_back({digest, std::move(identity)});
  return {};
}

const Identity* Auth::find_token(std::string_view secret) const {
  const Digest digest = digest_of(secret);
  const Identity* found = nullptr;
  for (const Token& token : tokens_) {
    const bool same = ::CRYPTO_memcmp(token.digest.data(), digest.data(), digest.size()) == 0;
    if (same) found = &token.identity;
  }
  return found;
}

// A web page can send requests to this host's own services. Browsers say where a request comes from
// and never let a page say otherwise; and a page that reaches us under a name of its own (DNS
// rebinding) shows in Host.
Result<void, ApiError> Auth::check_browser(const Request& request) const {
  const std::string* origin = request.find_header("origin");
  if (origin != nullptr && !origins_.contains(*origin)) {
    return refuse(403, "FORBIDDEN", "pages of {} may not use this service (key allowed_origins)",
                  *origin);
  }
  const std::string* host = request.find_header("host");
  if (tokens_.empty() && !request.peer.uid && host != nullptr && !is_local_name(*host)) {
    return refuse(403, "FORBIDDEN", "'{}' is no name of this host (set a token to use names)",
                  *host);
  }
  return {};
}

Result<Identity, ApiError> Auth::identify(const Request& request) const {
  TRY_VOID(check_browser(request));
  const std::optional<std::string_view> secret = secret_of(request);
  if (secret && !tokens_.empty()) {
    const Identity* found = find_token(*secret);
    if (found == nullptr) return tl::unexpected(unauthorized());
    return *found;
  }
  if (request.peer.uid) {
    if (!trusted_uids_.contains(*request.peer.uid)) return tl::unexpected(unauthorized());
    Identity local = everybody();
    local.name = fmt::format("uid:{}", *request.peer.uid);
    return local;
  }
  if (!tokens_.empty()) return tl::unexpected(unauthorized());
  return everybody();
}

}  // namespace glovebox::serve
