#include "checkpoint/records.h"

#include "workspace/tree/tree_fs.h"

#include <array>
#include <limits>

namespace glovebox::checkpoint {
namespace {

constexpr std::uint64_t kOpaque = 1;
constexpr std::uint64_t kCopiedUp = 2;

void put_number(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xffU);
}
void put_bytes(std::string& out, std::string_view bytes) {
  put_number(out, bytes.size(), 4);
  out += bytes;
}

auto malformed(std::string_view what) {
  return fail(Code::Invalid, "the checkpoint is malformed: {}", what);
}

// Relative, and every part of it a plain name.
bool is_plain_path(std::string_view path) {
  if (path.empty() || path.size() > workspace::kLongestPath) return false;
  if (path.find('\0') != std::string_view::npos) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name == "." || name == ".." || name.size() > 255) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

Result<void> check_entry(const EntryRecord& entry) {
  if (!is_plain_path(entry.path)) return malformed("a path that is none");
  if (entry.mode > 07777) return malformed("a mode that is none");
  if (entry.size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return malformed("a file of impossible size");
  }
  const bool is_link = entry.type == EntryType::Symlink;
  if (is_link != !entry.target.empty() || entry.target.find('\0') != std::string::npos) {
    return malformed("a link without a target, or a target without a link");
  }
  if (entry.is_opaque && entry.type != EntryType::Directory) return malformed("an opaque file");
  if (entry.size != 0 && entry.type != EntryType::File) return malformed("a size without a file");
  for (const auto& [name, value] : entry.xattrs) {
    const bool is_plain = name.starts_with("user.") && !name.starts_with("user.overlay.") &&
                          name.size() <= 255 && name.find('\0') == std::string::npos;
    if (!is_plain) return malformed("an attribute that a box cannot have");
  }
  return {};
}

}  // namespace

Result<void> RecordWriter::text(RecordKind kind, std::string_view text) {
  if (text.size() > kMaxTextRecord) {
    return fail(Code::Exhausted, "a record of {} bytes", text.size());
  }
  std::string head(1, static_cast<char>(kind));
  put_number(head, text.size(), 4);
  TRY_VOID(out_.write(head));
  return out_.write(text);
}

Result<void> RecordWriter::entry(const EntryRecord& entry) {
  TRY_VOID(check_entry(entry));
  std::string body(1, static_cast<char>(RecordKind::Entry));
  put_number(body, static_cast<std::uint64_t>(entry.type), 1);
  put_number(body, (entry.is_opaque ? kOpaque : 0) | (entry.is_copied_up ? kCopiedUp : 0), 1);
  put_number(body, entry.mode, 2);
  put_number(body, static_cast<std::uint64_t>(entry.modified), 8);
  put_number(body, entry.size, 8);
  put_bytes(body, entry.path);
  put_bytes(body, entry.target);
  put_number(body, entry.xattrs.size(), 2);
  for (const auto& [name, value] : entry.xattrs) {
    put_bytes(body, name);
    put_bytes(body, value);
  }
  return out_.write(body);
}

Result<void> RecordWriter::data(std::uint64_t offset, std::string_view bytes) {
  std::string head(1, static_cast<char>(RecordKind::Data));
  put_number(head, offset, 8);
  put_number(head, bytes.size(), 4);
  TRY_VOID(out_.write(head));
  return out_.write(bytes);
}

Result<void> RecordWriter::end() {
  const char kind = static_cast<char>(RecordKind::End);
  return out_.write({&kind, 1});
}

Result<std::uint64_t> RecordReader::number(std::size_t bytes) {
  std::array<char, 8> raw{};
  TRY_VOID(in_.read(std::span(raw).first(bytes)));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(raw.at(i))} << (8 * i);
  }
  return value;
}

Result<std::string> RecordReader::bytes(std::size_t most) {
  TRY(const std::uint64_t size, number(4));
  if (size > most) return malformed("a text that is too long");
  std::string text(size, '\0');
  TRY_VOID(in_.read(text));
  return text;
}

Result<RecordKind> RecordReader::next() {
  TRY(const std::uint64_t kind, number(1));
  switch (static_cast<RecordKind>(kind)) {
    case RecordKind::Snapshot:
    case RecordKind::Bases:
    case RecordKind::Layer:
    case RecordKind::Entry:
    case RecordKind::Data:
    case RecordKind::End: return static_cast<RecordKind>(kind);
  }
  return malformed("an unknown record");
}

Result<std::string> RecordReader::text() { return bytes(kMaxTextRecord); }

Result<EntryRecord> RecordReader::entry() {
  EntryRecord entry;
  TRY(const std::uint64_t type, number(1));
  if (type > static_cast<std::uint64_t>(EntryType::Whiteout)) return malformed("an unknown type");
  entry.type = static_cast<EntryType>(type);
  TRY(const std::uint64_t flags, number(1));
  if (flags > (kOpaque | kCopiedUp)) return malformed("unknown marks");
  entry.is_opaque = (flags & kOpaque) != 0;
  entry.is_copied_up = (flags & kCopiedUp) != 0;
  TRY(const std::uint64_t mode, number(2));
  entry.mode = static_cast<std::uint16_t>(mode);
  TRY(const std::uint64_t modified, number(8));
  entry.modified = static_cast<std::int64_t>(modified);
  TRY(entry.size, number(8));
  TRY(entry.path, bytes(workspace::kLongestPath));
  TRY(entry.target, bytes(workspace::kLongestPath));
  TRY(const std::uint64_t count, number(2));
  if (count > kMaxEntryXattrs) return malformed("too many attributes");
  for (std::uint64_t i = 0; i < count; ++i) {
    TRY(std::string name, bytes(255));
    TRY(std::string value, bytes(kMaxXattrBytes));
    if (!entry.xattrs.emplace(std::move(name), std::move(value)).second) {
      return malformed("an attribute that is there twice");
    }
  }
  TRY_VOID(check_entry(entry));
  return entry;
}

Result<RecordReader::Data> RecordReader::data() {
  Data data;
  TRY(data.offset, number(8));
  TRY(const std::uint64_t size, number(4));
  if (size > kMaxData) return malformed("data that is too long");
  // The room is kept from one to the next: large ones would be mapped and cleared each time.
  if (buffer_.size() < size) buffer_.resize(size);
  TRY_VOID(in_.read(std::span(buffer_).first(size)));
  data.bytes = std::string_view(buffer_).substr(0, size);
  return data;
}

}  // namespace glovebox::checkpoint
