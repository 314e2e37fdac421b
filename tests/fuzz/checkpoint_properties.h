// What holds for any bytes that are taken for a checkpoint.
#pragma once

#include "checkpoint/records.h"
#include "checkpoint/sealed_stream.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace glovebox::checkpoint {

inline Source source_of_bytes(std::string_view bytes) {
  return [bytes](std::span<char> into) mutable -> Result<std::size_t> {
    const std::size_t size = std::min(into.size(), bytes.size());
    std::copy_n(bytes.data(), size, into.data());
    bytes.remove_prefix(size);
    return size;
  };
}

inline Key fixed_key() { return *parse_key(std::string(64, '7')); }

// A header that is understood is written as it was; what is opened was written by who has the key.
// Returns why not, or nothing.
inline std::string broken_property(std::string_view bytes) {
  if (bytes.size() >= kPreludeBytes) {
    const auto size = decode_prelude(bytes.substr(0, kPreludeBytes));
    if (size && bytes.size() >= kPreludeBytes + *size) {
      const auto header = decode_header_body(bytes.substr(kPreludeBytes, *size));
      if (header) {
        const auto text = encode_header(*header);
        if (!text) return "a header that was read cannot be written";
        const auto again = decode_header_body(std::string_view(*text).substr(kPreludeBytes));
        if (!again || !(*again == *header)) return "a header changes when it is written";
      }
    }
  }
  const auto reader = SealedReader::open(source_of_bytes(bytes), fixed_key(), "");
  if (!reader) return {};
  // Sealed with the key: their writer had the key, and they are hostile all the same.
  RecordReader records(**reader);
  for (int i = 0; i < 10'000; ++i) {
    const auto kind = records.next();
    if (!kind || *kind == RecordKind::End) break;
    if (*kind == RecordKind::Entry) {
      const auto entry = records.entry();
      if (!entry) break;
      if (entry->path.empty() || entry->path.front() == '/') return "a path that leads elsewhere";
    } else if (*kind == RecordKind::Data) {
      if (!records.data()) break;
    } else if (!records.text()) {
      break;
    }
  }
  return {};
}

// Any bytes as the inside of a file that is sealed properly.
inline std::string sealed(std::string_view inside) {
  std::string file;
  const auto sink = [&file](std::string_view bytes) -> Result<void> {
    file += bytes;
    return {};
  };
  const auto writer = SealedWriter::open(sink, Header{}, fixed_key());
  if (writer && (*writer)->write(inside)) (void)(*writer)->finish();
  return file;
}

}  // namespace glovebox::checkpoint
