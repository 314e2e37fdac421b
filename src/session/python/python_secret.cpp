#include "session/python/python_secret.h"

#include "base/unique_fd.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

// Bytes that are wiped when they go.
struct Key {
  Key() = default;
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  ~Key() { sodium_memzero(bytes.data(), bytes.size()); }
  std::array<unsigned char, kMaxSecret> bytes{};
  std::size_t size = 0;
};

// As it is kept at this moment. A small file of the service's own: reading it does not wait.
Result<void> read_secret(const host::PathFacts& place, const std::string& name, Key& key) {
  const UniqueFd file(::open(place.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts{};
  if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      facts.st_uid != place.owner || (facts.st_mode & 077U) != 0) {
    return fail(Code::NotFound, "secret {}: it is not kept here any more", name);
  }
  while (key.size < key.bytes.size()) {
    const ssize_t got =
        ::read(file.get(), key.bytes.data() + key.size, key.bytes.size() - key.size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_os(errno, "read secret {}", name);
    if (got == 0) return {};
    key.size += static_cast<std::size_t>(got);
  }
  return fail(Code::Invalid, "secret {}: it has more than {} bytes", name, kMaxSecret - 1);
}

const unsigned char* bytes_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string sha256(const Key& key, const std::string& data) {
  crypto_auth_hmacsha256_state state;
  std::array<unsigned char, crypto_auth_hmacsha256_BYTES> made{};
  // These three cannot fail; they return 0 for the sake of their kind.
  (void)crypto_auth_hmacsha256_init(&state, key.bytes.data(), key.size);
  (void)crypto_auth_hmacsha256_update(&state, bytes_of(data), data.size());
  (void)crypto_auth_hmacsha256_final(&state, made.data());
  sodium_memzero(&state, sizeof(state));
  return std::string(made.begin(), made.end());
}

std::string sha512(const Key& key, const std::string& data) {
  crypto_auth_hmacsha512_state state;
  std::array<unsigned char, crypto_auth_hmacsha512_BYTES> made{};
  (void)crypto_auth_hmacsha512_init(&state, key.bytes.data(), key.size);  // as above
  (void)crypto_auth_hmacsha512_update(&state, bytes_of(data), data.size());
  (void)crypto_auth_hmacsha512_final(&state, made.data());
  sodium_memzero(&state, sizeof(state));
  return std::string(made.begin(), made.end());
}

}  // namespace

Result<boost::json::object> sign_with_secret(const PythonPlan& plan, const BrokerRequest& request,
                                             std::string& blob) {
  const std::string name = text_at(request.payload, "name");
  TRY(authority::Secret use, authority::Secret::parse(name));
  TRY_VOID(check_granted(plan, authority::Capability(std::move(use)), "secret"));
  const auto found = plan.secrets.find(name);
  if (found == plan.secrets.end()) return fail(Code::Denied, "secret");
  std::string algorithm = text_at(request.payload, "algorithm");
  if (algorithm.empty()) algorithm = "sha256";
  if (algorithm != "sha256" && algorithm != "sha512") {
    return fail(Code::Invalid, "'algorithm' is sha256 or sha512");
  }
  const std::string data = request.data("data");
  if (data.size() > kMaxSigned) {
    return fail(Code::Invalid, "at most {} bytes are signed: sign a digest of more", kMaxSigned);
  }
  Key key;
  TRY_VOID(read_secret(found->second, name, key));
  blob = algorithm == "sha256" ? sha256(key, data) : sha512(key, data);
  return bytes_value(blob.size());
}

}  // namespace glovebox::session
