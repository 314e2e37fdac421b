#include "workspace/git_index.h"

#include "workspace/tree_fs.h"

#include <algorithm>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kTimesAndNumbers = 24;  // ctime, mtime, device, inode
constexpr std::size_t kOwnersAndSize = 12;
constexpr unsigned kAssumeValid = 0x8000U;
constexpr unsigned kExtended = 0x4000U;
constexpr unsigned kNameLength = 0x0fffU;
constexpr unsigned kSkipWorktree = 0x4000U;  // of the second word of flags

auto broken(std::string_view what) { return fail(Code::Invalid, "git index: {}", what); }

class Parser {
 public:
  Parser(std::string_view bytes, std::size_t id_digits) : bytes_(bytes), id_bytes_(id_digits / 2) {}

  Result<GitIndex> parse() {
    TRY(const std::string_view magic, take(4));
    TRY(version_, number(4));
    TRY(const std::uint64_t count, number(4));
    if (magic != "DIRC" || version_ < 2 || version_ > 4) return broken("of an unknown version");
    if (count > bytes_.size()) return broken("it is cut off");
    for (std::uint64_t i = 0; i < count; ++i) TRY_VOID(entry());
    while (bytes_.size() > id_bytes_) TRY_VOID(extension());
    if (bytes_.size() != id_bytes_) return broken("it is cut off");
    return std::move(index_);
  }

 private:
  Result<std::string_view> take(std::size_t count) {
    if (count > bytes_.size()) return broken("it is cut off");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  Result<std::uint64_t> number(std::size_t size) {
    TRY(const std::string_view bytes, take(size));
    std::uint64_t value = 0;
    for (const char byte : bytes) value = value << 8U | static_cast<unsigned char>(byte);
    return value;
  }

  Result<std::string_view> until_zero() {
    const std::size_t end = bytes_.find('\0');
    if (end == std::string_view::npos) return broken("a name that does not end");
    const std::string_view name = bytes_.substr(0, end);
    bytes_.remove_prefix(end + 1);
    return name;
  }

  Result<void> entry() {
    const std::size_t before = bytes_.size();
    IndexEntry entry;
    TRY_VOID(take(kTimesAndNumbers).map([](std::string_view) {}));
    TRY(const std::uint64_t mode, number(4));
    TRY_VOID(take(kOwnersAndSize).map([](std::string_view) {}));
    TRY(const std::string_view id, take(id_bytes_));
    TRY(const std::uint64_t flags, number(2));
    std::uint64_t more = 0;
    if ((flags & kExtended) != 0) {
      if (version_ < 3) return broken("flags that this version does not have");
      TRY(more, number(2));
    }
    entry.mode = static_cast<unsigned>(mode);
    entry.id = id_from_bytes(id);
    entry.is_assumed_unchanged = (flags & kAssumeValid) != 0;
    entry.is_skipped = (more & kSkipWorktree) != 0;
    TRY(entry.path, version_ == 4 ? shortened_name() : padded_name(flags, before));
    if (entry.path.empty() || entry.path.size() > kLongestPath) return broken("a bad name");
    index_.entries.push_back(std::move(entry));
    return {};
  }

  // Followed by one to eight zeros, up to a multiple of eight.
  Result<std::string> padded_name(std::uint64_t flags, std::size_t before) {
    TRY(const std::string_view name, until_zero());
    if ((flags & kNameLength) != std::min<std::size_t>(name.size(), kNameLength)) {
      return broken("a name of another length");
    }
    const std::size_t used = before - bytes_.size();
    TRY(const std::string_view padding, take((8 - used % 8) % 8));
    if (padding.find_first_not_of('\0') != std::string_view::npos) return broken("bad padding");
    return std::string(name);
  }

  // How much of the name before is dropped, and what is put there.
  Result<std::string> shortened_name() {
    std::uint64_t drop = 0;
    for (unsigned count = 0;; ++count) {
      TRY(const std::uint64_t byte, number(1));
      if (count > 4) return broken("a name out of nothing");
      drop = (count == 0 ? 0 : (drop + 1) << 7U) | (byte & 0x7fU);
      if ((byte & 0x80U) == 0) break;
    }
    const std::string_view last =
        index_.entries.empty() ? std::string_view() : index_.entries.back().path;
    if (drop > last.size()) return broken("a name out of nothing");
    TRY(const std::string_view rest, until_zero());
    return std::string(last.substr(0, last.size() - drop)) + std::string(rest);
  }

  // Those in capital letters may be ignored; the others change what the index means.
  Result<void> extension() {
    TRY(const std::string_view name, take(4));
    TRY(const std::uint64_t size, number(4));
    TRY(const std::string_view body, take(size));
    if (name == "link") {
      return fail(Code::Unsupported, "git index: it is split, and its names are elsewhere");
    }
    if (name == "FSMN") index_.fsmonitor = body;
    const bool may_be_ignored = name.front() >= 'A' && name.front() <= 'Z';
    if (!may_be_ignored && name != "sdir") return broken("an unknown extension");
    return {};
  }

  std::string_view bytes_;
  std::size_t id_bytes_;
  std::uint64_t version_ = 0;
  GitIndex index_;
};

}  // namespace

Result<GitIndex> parse_git_index(std::string_view bytes, std::size_t id_digits) {
  if (bytes.size() > kLargestGitIndex) return fail(Code::Exhausted, "git index: too large");
  return Parser(bytes, id_digits).parse();
}

}  // namespace glovebox::workspace
