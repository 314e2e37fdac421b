#include "workspace/git/git_binary.h"

// The plain functions, for the reasons in base/sha256.cpp.
#define OPENSSL_API_COMPAT 0x10100000L

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <iterator>

#include <zlib.h>

namespace glovebox::workspace {
namespace {

// RFC 1924's digits, which git uses.
constexpr std::string_view kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
constexpr std::size_t kLineBytes = 52;
constexpr std::size_t kGroupBytes = 4;
constexpr std::size_t kGroupDigits = 5;

Result<std::string> compressed(std::string_view bytes) {
  uLongf size = ::compressBound(bytes.size());
  std::string out(size, '\0');
  const int result = ::compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                                 Z_DEFAULT_COMPRESSION);
  if (result != Z_OK) return fail_os(ENOMEM, "compress");
  out.resize(size);
  return out;
}

// Four bytes, the first the highest; what is missing of them counts as zero.
void append_group(std::string& out, std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kGroupBytes; ++i) {
    value = value << 8U | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
  }
  std::array<char, kGroupDigits> digits{};
  constexpr std::uint32_t kBase = 85;
  static_assert(kDigits.size() == kBase);
  for (std::size_t i = kGroupDigits; i-- > 0; value /= kBase) {
    digits.at(i) = kDigits[value % kBase];
  }
  out.append(digits.data(), digits.size());
}

// Each line begins with how many bytes it stands for: A to Z for 1 to 26, a to z for the rest.
Result<std::string> literal(std::string_view content) {
  TRY(const std::string packed, compressed(content));
  std::string out = fmt::format("literal {}\n", content.size());
  for (std::size_t at = 0; at < packed.size(); at += kLineBytes) {
    const std::string_view line = std::string_view(packed).substr(at, kLineBytes);
    const auto length = static_cast<int>(line.size());
    out += static_cast<char>(length <= 26 ? 'A' + length - 1 : 'a' + length - 27);
    for (std::size_t i = 0; i < line.size(); i += kGroupBytes) {
      append_group(out, line.substr(i, kGroupBytes));
    }
    out += '\n';
  }
  return out + '\n';
}

}  // namespace

std::string git_blob_id(std::string_view content) {
  SHA_CTX context{};
  SHA1_Init(&context);
  // git hashes the terminating zero byte, too.
  const std::string header = fmt::format("blob {}", content.size());
  SHA1_Update(&context, header.c_str(), header.size() + 1);
  SHA1_Update(&context, content.data(), content.size());
  std::array<unsigned char, SHA_DIGEST_LENGTH> hash{};
  SHA1_Final(hash.data(), &context);
  std::string text;
  for (const unsigned char byte : hash) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

std::string no_git_blob() { return std::string(std::size_t{2} * SHA_DIGEST_LENGTH, '0'); }

Result<std::string> git_binary_patch(std::string_view before, std::string_view after) {
  TRY(const std::string there, literal(after));
  TRY(const std::string back, literal(before));
  return "GIT binary patch\n" + there + back;
}

}  // namespace glovebox::workspace
