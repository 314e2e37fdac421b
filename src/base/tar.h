// The tar format, as much of it as uploads, downloads and lists of changes need: one 512-byte
// header per member. What is read comes from outside and may hold anything.
//
// Written: ustar, with a pax record where a path or a size does not fit. Read: ustar, pax (path,
// linkpath, size, mtime; others are passed over), and GNU long names, because that is what `tar`
// writes by default. Everything else (devices, sparse files, multi-volume) is refused by name. Not
// by an archive library: the program is linked statically, and this is one format.
#pragma once

#include "base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox {

inline constexpr std::size_t kTarBlock = 512;
using TarBlock = std::array<char, kTarBlock>;

// The longest record that describes a member: a path with its keyword.
inline constexpr std::uint64_t kMaxTarRecord = std::uint64_t{64} << 10;

struct TarMember {
  enum class Kind : std::uint8_t { File, Directory, Symlink, HardLink } kind = Kind::File;
  std::string path{};
  std::string target{};  // of a link
  std::uint32_t mode = 0644;
  std::uint64_t size = 0;     // of a file's content, which follows
  std::int64_t modified = 0;  // seconds since 1970
  bool operator==(const TarMember&) const = default;
};

// The header blocks of one member.
std::string format_tar_member(const TarMember& member);
// How many zero bytes follow `size` bytes of content.
std::size_t tar_padding(std::uint64_t size);

// What a header block is about.
struct TarHeader {
  char type = '0';
  TarMember member;
};
// Nothing for a block of zeros, which ends the archive. A wrong checksum is Code::Invalid.
Result<std::optional<TarHeader>> parse_tar_header(const TarBlock& block);

// What pax and GNU records in front of a member say about it.
struct TarOverrides {
  std::optional<std::string> path;
  std::optional<std::string> target;
  std::optional<std::uint64_t> size;
  std::optional<std::int64_t> modified;
};
Result<void> parse_pax(std::string_view records, TarOverrides& overrides);

// A member's path as one that stays below where it is unpacked, without a leading "./": absolute
// ones and ".." are Code::Invalid. "." itself is empty.
Result<std::string> clean_member_path(std::string_view path);

}  // namespace glovebox
