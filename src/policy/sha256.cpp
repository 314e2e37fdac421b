#include "policy/sha256.h"

// The plain functions of libcrypto, which OpenSSL 3 marks as deprecated in favour of EVP. EVP would
// read a configuration file named by an environment variable and link in every other algorithm.
#define OPENSSL_API_COMPAT 0x10100000L

#include <openssl/sha.h>

#include <fmt/format.h>

#include <array>

namespace glovebox::policy {

std::string sha256_hex(std::string_view bytes) {
  SHA256_CTX state;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  SHA256_Init(&state);
  SHA256_Update(&state, bytes.data(), bytes.size());
  SHA256_Final(hash.data(), &state);
  std::string text;
  for (const unsigned char byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace glovebox::policy
