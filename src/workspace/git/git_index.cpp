#include "workspace/git/git_index.h"

#include "workspace/git/git_index_trees.h"
#include "workspace/tree/tree_fs.h"

#include <algorithm>
#include <cctype>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kTimesAndNumbers = 24;  // ctime, mtime, device, inode
constexpr std::size_t kOwnersAndSize = 12;
constexpr std::size_t kExtensionHeader = 8;  // name and size
constexpr std::size_t kPlaceSize = 4;
constexpr unsigned kAssumeValid = 0x8000U;
constexpr unsigned kExtended = 0x4000U;
constexpr unsigned kNameLength = 0x0fffU;
constexpr unsigned kStage = 0x3000U;
constexpr unsigned kSkipWorktree = 0x4000U;  // of the second word of flags
// A name of version 4 takes a few bytes of the file, however long it is.
constexpr std::size_t kMostNameBytes = std::size_t{64} << 20;

auto broken(std::string_view what) { return fail(Code::Invalid, "git index: {}", what); }

bool is_git(std::string_view name) {
  constexpr std::string_view kGit = ".git";
  return std::equal(name.begin(), name.end(), kGit.begin(), kGit.end(),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

// git puts no other names into an index, and does not look at them again before it writes or
// removes a file of that path, also one outside of the working tree.
bool is_path_in_worktree(std::string_view path) {
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part.empty() || part == "." || part == ".." || is_git(part)) return false;
    start = end + 1;
  }
  return true;
}

Result<void> check_name(std::string_view path, unsigned mode) {
  // A directory of a sparse index ends in "/".
  const bool is_directory = mode == 040000U;
  if (path.size() > kLongestPath || is_directory != path.ends_with('/'))
    return broken("a bad name");
  if (is_directory) path.remove_suffix(1);
  return is_path_in_worktree(path) ? Result<void>() : broken("a name that git refuses");
}

// Of another mode git takes what it likes: 0120777 is a link to it.
bool is_mode(std::uint64_t mode) {
  return mode == 040000U || mode == 0100644U || mode == 0100755U || mode == 0120000U ||
         mode == 0160000U;
}

std::uint64_t number_of(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes) value = value << 8U | static_cast<unsigned char>(byte);
  return value;
}

class Parser {
 public:
  Parser(std::string_view bytes, std::size_t id_digits)
      : whole_(bytes), bytes_(bytes), id_bytes_(id_digits / 2) {}

  Result<GitIndex> parse() {
    TRY(const std::string_view magic, take(4));
    TRY(version_, number(4));
    TRY(const std::uint64_t count, number(4));
    if (magic != "DIRC" || version_ < 2 || version_ > 4) return broken("of an unknown version");
    if (count > bytes_.size()) return broken("it is cut off");
    for (std::uint64_t i = 0; i < count; ++i) TRY_VOID(entry());
    end_of_entries_ = place();
    while (bytes_.size() > id_bytes_) TRY_VOID(extension());
    if (bytes_.size() != id_bytes_) return broken("it is cut off");
    TRY_VOID(check_end());
    return std::move(index_);
  }

 private:
  struct Start {
    std::size_t place = 0;
    bool is_whole = true;  // its name needs nothing of the name before
  };

  std::size_t place() const { return whole_.size() - bytes_.size(); }

  Result<std::string_view> take(std::size_t count) {
    if (count > bytes_.size()) return broken("it is cut off");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  Result<std::uint64_t> number(std::size_t size) {
    TRY(const std::string_view bytes, take(size));
    return number_of(bytes);
  }

  Result<std::string_view> until_zero() {
    const std::size_t end = bytes_.find('\0');
    if (end == std::string_view::npos) return broken("a name that does not end");
    const std::string_view name = bytes_.substr(0, end);
    bytes_.remove_prefix(end + 1);
    return name;
  }

  Result<void> entry() {
    starts_.push_back({.place = place()});
    IndexEntry entry;
    TRY_VOID(take(kTimesAndNumbers).map([](std::string_view) {}));
    TRY(const std::uint64_t mode, number(4));
    if (!is_mode(mode)) return broken("an unknown mode");
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
    TRY(entry.path, version_ == 4 ? shortened_name() : padded_name());
    // In version 4, too, git finds the next entry by it.
    if ((flags & kNameLength) != std::min<std::size_t>(entry.path.size(), kNameLength)) {
      return broken("a name of another length");
    }
    return add(std::move(entry), flags & kStage);
  }

  Result<void> add(IndexEntry entry, std::uint64_t stage) {
    TRY_VOID(check_name(entry.path, entry.mode));
    name_bytes_ += entry.path.size();
    if (name_bytes_ > kMostNameBytes) return fail(Code::Exhausted, "git index: too many names");
    // git searches by halves: what lies in another order is there for one search and not for
    // another.
    if (!index_.entries.empty()) {
      const std::string& last = index_.entries.back().path;
      if (last > entry.path || (last == entry.path && last_stage_ >= stage)) {
        return broken("names that are not in order");
      }
    }
    last_stage_ = stage;
    index_.entries.push_back(std::move(entry));
    return {};
  }

  // Followed by one to eight zeros, up to a multiple of eight.
  Result<std::string> padded_name() {
    TRY(const std::string_view name, until_zero());
    const std::size_t used = place() - starts_.back().place;
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
    starts_.back().is_whole = drop == last.size();
    TRY(const std::string_view rest, until_zero());
    return std::string(last.substr(0, last.size() - drop)) + std::string(rest);
  }

  // Those in capital letters may be ignored; the others change what the index means.
  Result<void> extension() {
    const std::size_t start = place();
    TRY(const std::string_view name, take(4));
    TRY(const std::uint64_t size, number(4));
    TRY(const std::string_view body, take(size));
    if (name == "link") {
      return fail(Code::Unsupported, "git index: it is split, and its names are elsewhere");
    }
    if (name == "FSMN") index_.fsmonitor = body;
    if (name == "TREE" && !body.empty()) {
      TRY_VOID(check_remembered_trees(body, index_.entries, id_bytes_ * 2));
    }
    if (name == "EOIE") TRY_VOID(check_end_of_entries(body, start));
    if (name == "IEOT") TRY_VOID(check_blocks(body));
    const bool may_be_ignored = name.front() >= 'A' && name.front() <= 'Z';
    if (!may_be_ignored && name != "sdir") return broken("an unknown extension");
    return {};
  }

  // Where git looks for extensions when it reads with several threads.
  Result<void> check_end_of_entries(std::string_view body, std::size_t start) {
    if (body.size() != kPlaceSize + id_bytes_ ||
        number_of(body.substr(0, kPlaceSize)) != end_of_entries_) {
      return broken("it says that its entries end elsewhere");
    }
    said_end_at_ = start;
    return {};
  }

  // git looks for that extension at a fixed place before the end, whatever lies around it.
  Result<void> check_end() const {
    const std::size_t size = kExtensionHeader + kPlaceSize + 2 * id_bytes_;
    if (whole_.size() < size) return {};
    const std::size_t at = whole_.size() - size;
    if (whole_.substr(at, 4) != "EOIE" || said_end_at_ == at) return {};
    return broken("it hides where its entries end");
  }

  // Blocks of entries that threads of git read one by one: a version, and for each block its place
  // and how many there are. They must be the entries as they follow one another.
  Result<void> check_blocks(std::string_view body) const {
    if (body.size() < 4 || (body.size() - 4) % 8 != 0) return broken("blocks that are none");
    std::size_t next = 0;
    for (body.remove_prefix(4); !body.empty(); body.remove_prefix(8)) {
      // A thread does not know the name before its block.
      const bool begins = next < starts_.size() && starts_[next].is_whole &&
                          starts_[next].place == number_of(body.substr(0, 4));
      if (!begins) return broken("a block of entries that lies elsewhere");
      next += number_of(body.substr(4, 4));
    }
    return next == starts_.size() ? Result<void>() : broken("blocks without all entries");
  }

  std::string_view whole_;
  std::string_view bytes_;
  std::size_t id_bytes_;
  std::uint64_t version_ = 0;
  std::vector<Start> starts_;  // of all entries
  std::size_t end_of_entries_ = 0;
  std::size_t said_end_at_ = 0;
  std::size_t name_bytes_ = 0;
  std::uint64_t last_stage_ = 0;
  GitIndex index_;
};

}  // namespace

Result<GitIndex> parse_git_index(std::string_view bytes, std::size_t id_digits) {
  if (bytes.size() > kLargestGitIndex) return fail(Code::Exhausted, "git index: too large");
  return Parser(bytes, id_digits).parse();
}

}  // namespace glovebox::workspace
