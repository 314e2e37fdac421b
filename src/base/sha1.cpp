#include "base/sha1.h"

// The plain functions of libcrypto, for the reasons in sha256.cpp.
#define OPENSSL_API_COMPAT 0x10100000L

#include <openssl/sha.h>

#include <fmt/format.h>

#include <array>

namespace glovebox {

struct Sha1::State {
  SHA_CTX context{};
};

Sha1::Sha1() : state_(std::make_unique<State>()) { SHA1_Init(&state_->context); }
Sha1::Sha1(Sha1&&) noexcept = default;
Sha1& Sha1::operator=(Sha1&&) noexcept = default;
Sha1::~Sha1() = default;

void Sha1::add(std::string_view bytes) {
  SHA1_Update(&state_->context, bytes.data(), bytes.size());
}

std::string Sha1::finish() {
  std::array<unsigned char, SHA_DIGEST_LENGTH> hash{};
  SHA1_Final(hash.data(), &state_->context);
  std::string text;
  for (const unsigned char byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace glovebox
