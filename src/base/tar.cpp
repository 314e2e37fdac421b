#include "base/tar.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <span>

namespace glovebox {
namespace {

// Where the fields of a header lie.
struct Field {
  std::size_t at;
  std::size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kUid{108, 8};
constexpr Field kGid{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kModified{136, 12};
constexpr Field kChecksum{148, 8};
constexpr std::size_t kType = 156;
constexpr Field kLink{157, 100};
constexpr Field kMagic{257, 8};
constexpr Field kPrefix{345, 155};
constexpr std::string_view kUstar("ustar\00000", 8);
constexpr std::uint64_t kLargestOctal = 077777777777;  // eleven digits

void put_text(TarBlock& block, Field field, std::string_view text) {
  std::ranges::copy(text.substr(0, field.size), block.begin() + static_cast<long>(field.at));
}

void put_octal(TarBlock& block, Field field, std::uint64_t value) {
  put_text(block, field, fmt::format("{:0{}o}", value, field.size - 1));
}

std::string_view text_in(const TarBlock& block, Field field) {
  const std::string_view text(block.data() + field.at, field.size);
  return text.substr(0, text.find('\0'));
}

// The sum over the header with the checksum itself taken as blanks.
std::uint32_t checksum_of(const TarBlock& block) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? std::uint32_t{' '} : static_cast<unsigned char>(block.at(i));
  }
  return sum;
}

Result<std::uint64_t> number_in(const TarBlock& block, Field field) {
  const std::span<const char> bytes(block.data() + field.at, field.size);
  if ((static_cast<unsigned char>(bytes[0]) & 0x80U) != 0) {  // GNU: binary, for large values
    std::uint64_t value = static_cast<unsigned char>(bytes[0]) & 0x7fU;
    for (const char c : bytes.subspan(1)) {
      if (value >> 55 != 0) return fail(Code::Invalid, "a number too large in an archive");
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  std::string_view text = text_in(block, field);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  std::uint64_t value = 0;
  if (text.empty()) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(Code::Invalid, "a number that is none in an archive");
  }
  return value;
}

template <class Number>
struct Leading {
  Number number;
  std::string_view rest;
};

// The number that a text begins with, and what follows it.
template <class Number>
std::optional<Leading<Number>> parse_leading(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return Leading<Number>{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

// "27 path=some/long/path\n", where the number counts the whole record, itself included.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t size = rest + 1;
  while (fmt::formatted_size("{}", size) + rest != size) ++size;
  return fmt::format("{} {}={}\n", size, key, value);
}

std::string format_block(const TarMember& member, char type) {
  TarBlock block{};
  put_text(block, kName, member.path);
  put_octal(block, kMode, member.mode & 07777U);
  put_octal(block, kUid, 0);
  put_octal(block, kGid, 0);
  put_octal(block, kSize, std::min(member.size, kLargestOctal));
  const auto latest = static_cast<std::int64_t>(kLargestOctal);
  put_octal(block, kModified,
            static_cast<std::uint64_t>(std::clamp<std::int64_t>(member.modified, 0, latest)));
  block.at(kType) = type;
  put_text(block, kLink, member.target);
  put_text(block, kMagic, kUstar);
  put_text(block, kChecksum, fmt::format("{:06o}", checksum_of(block)));
  block.at(kChecksum.at + 7) = ' ';
  return {block.data(), block.size()};
}

char type_of(TarMember::Kind kind) {
  switch (kind) {
    case TarMember::Kind::File: return '0';
    case TarMember::Kind::HardLink: return '1';
    case TarMember::Kind::Symlink: return '2';
    case TarMember::Kind::Directory: return '5';
  }
  return '0';
}

}  // namespace

std::size_t tar_padding(std::uint64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

std::string format_tar_member(const TarMember& member) {
  std::string records;
  if (member.path.size() > kName.size) records += pax_record("path", member.path);
  if (member.target.size() > kLink.size) records += pax_record("linkpath", member.target);
  if (member.size > kLargestOctal) records += pax_record("size", fmt::format("{}", member.size));
  std::string blocks;
  if (!records.empty()) {
    TarMember pax;
    pax.path = "pax";
    pax.size = records.size();
    blocks = format_block(pax, 'x') + records;
    blocks.append(tar_padding(records.size()), '\0');
  }
  return blocks + format_block(member, type_of(member.kind));
}

Result<std::optional<TarHeader>> parse_tar_header(const TarBlock& block) {
  if (std::ranges::all_of(block, [](char c) { return c == '\0'; })) return std::nullopt;
  TRY(const std::uint64_t sum, number_in(block, kChecksum));
  if (sum != checksum_of(block)) return fail(Code::Invalid, "a damaged header in an archive");
  TarHeader header;
  header.type = block.at(kType) == '\0' ? '0' : block.at(kType);
  header.member.path = text_in(block, kName);
  // The old format has something else where ustar has the prefix.
  const bool is_ustar = std::string_view(block.data() + kMagic.at, 6) == kUstar.substr(0, 6);
  if (const std::string_view prefix = text_in(block, kPrefix); is_ustar && !prefix.empty()) {
    header.member.path = fmt::format("{}/{}", prefix, header.member.path);
  }
  header.member.target = text_in(block, kLink);
  TRY(const std::uint64_t mode, number_in(block, kMode));
  TRY(header.member.size, number_in(block, kSize));
  TRY(const std::uint64_t modified, number_in(block, kModified));
  header.member.mode = static_cast<std::uint32_t>(mode & 07777U);
  header.member.modified = static_cast<std::int64_t>(modified);
  return header;
}

Result<void> parse_pax(std::string_view records, TarOverrides& overrides) {
  const auto malformed = [] { return fail(Code::Invalid, "a malformed record in an archive"); };
  while (!records.empty() && records.front() != '\0') {
    std::size_t size = 0;
    const auto [end, error] =
        std::from_chars(records.data(), records.data() + records.size(), size);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || size > records.size() || size < digits + 3) return malformed();
    std::string_view record = records.substr(0, size);
    records.remove_prefix(size);
    if (record.back() != '\n' || record[digits] != ' ') return malformed();
    record = record.substr(digits + 1, size - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return malformed();
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") overrides.path = value;
    if (key == "linkpath") overrides.target = value;
    if (key == "size") {
      const auto bytes = parse_leading<std::uint64_t>(value);
      if (!bytes || bytes->rest != "") return malformed();
      overrides.size = bytes->number;
    }
    if (key == "mtime") {  // with a fraction, which is dropped
      const auto seconds = parse_leading<std::int64_t>(value);
      if (!seconds) return malformed();
      overrides.modified = seconds->number;
    }
  }
  return {};
}

Result<std::string> clean_member_path(std::string_view path) {
  if (path.empty() || path.starts_with('/') || path.find('\0') != std::string_view::npos) {
    return fail(Code::Invalid, "'{}' is no path for a member of an archive", path);
  }
  std::string clean;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") return fail(Code::Invalid, "a member of an archive leads out of it by '..'");
    if (!clean.empty()) clean += '/';
    clean += part;
  }
  return clean;
}

}  // namespace glovebox
