#include "checkpoint/key.h"

#include "base/file.h"

#include <algorithm>

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::checkpoint {
namespace {

constexpr std::string_view kIdWord = "glovebox checkpoint key id";
constexpr std::string_view kProofWord = "glovebox checkpoint received";

const unsigned char* as_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string hex(std::span<const unsigned char> bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

}  // namespace

Key::Key(std::span<const unsigned char, kKeyBytes> bytes) {
  std::ranges::copy(bytes, bytes_.begin());
}

Key::~Key() { sodium_memzero(bytes_.data(), bytes_.size()); }

bool operator==(const Key& a, const Key& b) {
  return sodium_memcmp(a.bytes_.data(), b.bytes_.data(), kKeyBytes) == 0;
}

std::string Key::id() const {
  std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), as_bytes(kIdWord), kIdWord.size(), bytes_.data(),
                     bytes_.size());
  return hex(std::span(hash).first(8));
}

std::string Key::to_hex() const { return hex(bytes_); }

Result<Key> parse_key(std::string_view text) {
  if (text.size() == kKeyBytes) {
    return Key(std::span<const unsigned char, kKeyBytes>(as_bytes(text), kKeyBytes));
  }
  while (text.ends_with('\n') || text.ends_with('\r') || text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  std::array<unsigned char, kKeyBytes> bytes{};
  std::size_t size = 0;
  const bool is_hex = text.size() == kKeyBytes * 2 &&
                      sodium_hex2bin(bytes.data(), bytes.size(), text.data(), text.size(), nullptr,
                                     &size, nullptr) == 0 &&
                      size == kKeyBytes;
  if (!is_hex) return fail(Code::Invalid, "a key is 32 bytes, or 64 hex digits");
  Key key(bytes);
  sodium_memzero(bytes.data(), bytes.size());
  return key;
}

Result<Key> read_key_file(const std::string& path) {
  TRY(const UniqueFd file, open_file(path, O_RDONLY | O_NOCTTY));
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return fail_os(errno, "look at {}", path);
  if (S_ISREG(facts.st_mode) && (facts.st_mode & 077U) != 0) {
    return fail(Code::Denied, "{}: others could read the key (chmod go= {})", path, path);
  }
  TRY(std::string text, read_fd(file, 256));
  auto key = parse_key(text);
  sodium_memzero(text.data(), text.size());
  if (!key) return fail(key.error().code, "{}: {}", path, key.error().message);
  return key;
}

Result<Key> make_key() {
  if (sodium_init() < 0) return fail(Code::Os, "the random numbers of libsodium do not work");
  std::array<unsigned char, kKeyBytes> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  Key key(bytes);
  sodium_memzero(bytes.data(), bytes.size());
  return key;
}

std::string proof_of_receipt(const Key& key, std::string_view file_tag, std::string_view session) {
  std::array<unsigned char, crypto_generichash_BYTES> hash{};
  crypto_generichash_state state{};
  crypto_generichash_init(&state, key.bytes().data(), key.bytes().size(), hash.size());
  for (const std::string_view part : {kProofWord, file_tag, session}) {
    // Lengths first, so that no two lists of parts are the same bytes.
    const std::uint64_t size = part.size();
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&size), sizeof(size));
    crypto_generichash_update(&state, as_bytes(part), part.size());
  }
  crypto_generichash_final(&state, hash.data(), hash.size());
  return hex(hash);
}

bool same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace glovebox::checkpoint
