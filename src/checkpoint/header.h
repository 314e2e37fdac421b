// What a checkpoint file says before anything in it is opened.
//
//   8 bytes   "GLOVEBOX"
//   1 byte    version
//   3 bytes   zero
//   4 bytes   length of what follows, little-endian
//   JSON      {"tenant":...,"policy":...,"state":[...],"key":...}
//
// A reader of the file can read this without the key. When a byte of it is changed, the rest can no
// longer be opened: all of it is authenticated with every part of the content. So the tenant can be
// compared before the key is used, and a file of one tenant cannot be made one of another's.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::checkpoint {

inline constexpr std::string_view kMagic = "GLOVEBOX";
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kPreludeBytes = 16;
inline constexpr std::size_t kMaxHeaderBytes = 16 << 10;

struct Header {
  std::string tenant;              // whose it is; may be empty
  std::string policy_digest;       // of the session's policy; empty: none
  std::vector<std::string> state;  // "config", "files", "memory"
  std::string key_id;              // of the key that opens it
  friend bool operator==(const Header&, const Header&) = default;
};

// The prelude and the JSON.
Result<std::string> encode_header(const Header& header);

// How many bytes of JSON follow the prelude. Code::Invalid when it is no checkpoint, Unsupported
// when a newer program wrote it.
Result<std::size_t> decode_prelude(std::string_view prelude);
Result<Header> decode_header_body(std::string_view text);

}  // namespace glovebox::checkpoint
