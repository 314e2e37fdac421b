// The key that checkpoint files are sealed with: 32 bytes that the user keeps.
//
// It comes from a file or from a variable, never from a command line, where every user of the host
// could read it.
#pragma once

#include "base/result.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace glovebox::checkpoint {

inline constexpr std::size_t kKeyBytes = 32;

// Wiped when it goes.
class Key {
 public:
  explicit Key(std::span<const unsigned char, kKeyBytes> bytes);
  Key(const Key& other) = default;
  Key& operator=(const Key& other) = default;
  ~Key();

  std::span<const unsigned char, kKeyBytes> bytes() const { return bytes_; }
  // Tells keys apart without telling anything of them: 16 hex digits.
  std::string id() const;
  // 64 hex digits, as parse_key() takes them.
  std::string to_hex() const;

  friend bool operator==(const Key& a, const Key& b);

 private:
  std::array<unsigned char, kKeyBytes> bytes_{};
};

// 32 bytes as they are, or as 64 hex digits with or without a line end.
Result<Key> parse_key(std::string_view text);
// Refused when another user than its owner can read the file.
Result<Key> read_key_file(const std::string& path);
Result<Key> make_key();

// Proof that the peer has opened the file with this tag, checked with the key: 64 hex digits.
std::string proof_of_receipt(const Key& key, std::string_view file_tag, std::string_view session);
// In a time that does not depend on where they differ.
bool same_proof(std::string_view a, std::string_view b);

}  // namespace glovebox::checkpoint
