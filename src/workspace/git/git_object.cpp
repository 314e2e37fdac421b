#include "workspace/git/git_object.h"

#include "base/sha1.h"
#include "base/sha256.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include <zlib.h>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kSha1Digits = 40;
constexpr std::size_t kSha256Digits = 64;
// "commit 123\0": no type is longer than six letters, no size than nineteen digits.
constexpr std::size_t kLongestHeader = 32;
constexpr std::size_t kPiece = std::size_t{64} << 10;
constexpr std::size_t kMostParents = 1024;

auto broken(std::string_view what) { return fail(Code::Invalid, "git object: {}", what); }

std::string_view word_of(ObjectType type) {
  switch (type) {
    case ObjectType::Commit: return "commit";
    case ObjectType::Tree: return "tree";
    case ObjectType::Blob: return "blob";
    case ObjectType::Tag: return "tag";
  }
  return "unknown";
}

Result<ObjectType> type_of(std::string_view word) {
  for (const ObjectType type :
       {ObjectType::Commit, ObjectType::Tree, ObjectType::Blob, ObjectType::Tag}) {
    if (word == word_of(type)) return type;
  }
  return broken("an unknown type");
}

// One hash of either kind.
class Hash {
 public:
  explicit Hash(std::size_t id_digits) : is_long_(id_digits == kSha256Digits) {}
  void add(std::string_view bytes) { is_long_ ? long_.add(bytes) : short_.add(bytes); }
  ObjectId finish() { return is_long_ ? long_.finish() : short_.finish(); }

 private:
  bool is_long_;
  Sha1 short_;
  Sha256 long_;
};

// zlib, piece by piece.
class Inflater {
 public:
  Inflater() { is_open_ = ::inflateInit(&stream_) == Z_OK; }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (is_open_) ::inflateEnd(&stream_);
  }

  bool is_done() const { return is_done_; }
  std::size_t left() const { return stream_.avail_in; }

  // The bytes must live until they are used up.
  void feed(std::string_view bytes) {
    // zlib does not write to its input; its interface only forgot to say so.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
  }

  // How many bytes were written to `out`; 0 at the end or when more input is needed.
  Result<std::size_t> take(char* out, std::size_t room) {
    if (!is_open_) return fail_os(ENOMEM, "start to inflate");
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(room);
    const int answer = ::inflate(&stream_, Z_NO_FLUSH);
    if (answer == Z_STREAM_END) is_done_ = true;
    if (answer != Z_STREAM_END && answer != Z_OK && answer != Z_BUF_ERROR) {
      return broken("bytes that do not inflate");
    }
    return room - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool is_open_ = false;
  bool is_done_ = false;
};

struct Header {
  ObjectType type = ObjectType::Blob;
  std::uint64_t size = 0;
  std::size_t length = 0;  // of the header itself, with its zero byte
};

Result<Header> parse_header(std::string_view bytes) {
  const std::size_t end = bytes.substr(0, kLongestHeader).find('\0');
  const std::size_t space = bytes.find(' ');
  if (end == std::string_view::npos || space >= end) return broken("no header");
  TRY(const ObjectType type, type_of(bytes.substr(0, space)));
  const std::string_view digits = bytes.substr(space + 1, end - space - 1);
  std::uint64_t size = 0;
  const auto [last, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (problem != std::errc() || last != digits.data() + digits.size()) return broken("no size");
  return Header{.type = type, .size = size, .length = end + 1};
}

// "name VALUE\n" off the front of a commit or tag.
Result<std::string_view> take_field(std::string_view& text, std::string_view name) {
  if (!text.starts_with(name) || text.substr(name.size(), 1) != " ") {
    return broken(fmt::format("'{}' is missing", name));
  }
  text.remove_prefix(name.size() + 1);
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return broken("a line that does not end");
  const std::string_view value = text.substr(0, end);
  text.remove_prefix(end + 1);
  return value;
}

Result<ObjectId> take_id(std::string_view& text, std::string_view name) {
  TRY(const std::string_view value, take_field(text, name));
  if (!is_object_id(value)) return broken("an id that is none");
  return ObjectId(value);
}

// "... <mail> 1700000000 +0100"
std::int64_t time_of(std::string_view committer) {
  const std::size_t mail = committer.rfind('>');
  if (mail == std::string_view::npos) return 0;
  committer.remove_prefix(std::min(mail + 2, committer.size()));
  std::int64_t time = 0;
  std::from_chars(committer.data(), committer.data() + committer.size(), time);
  return time;
}

// As git writes them, and with a leading zero, as some old programs did.
Result<unsigned> parse_mode(std::string_view digits) {
  unsigned mode = 0;
  const auto [last, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), mode, /*base=*/8);
  if (problem != std::errc() || last != digits.data() + digits.size()) return broken("no mode");
  const unsigned kind = mode & 0170000U;
  if (kind == 0100000U) return (mode & 0100U) != 0 ? 0100755U : 0100644U;
  if (kind == 0040000U || kind == 0120000U || kind == 0160000U) return kind;
  return broken("an unknown mode");
}

bool is_name_of_a_file(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

}  // namespace

bool is_object_id(std::string_view text) {
  return (text.size() == kSha1Digits || text.size() == kSha256Digits) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_null_id(std::string_view id) { return id.find_first_not_of('0') == std::string_view::npos; }

std::string id_from_bytes(std::string_view bytes) { return to_hex(bytes); }

ObjectId object_name(ObjectType type, std::string_view data, std::size_t id_digits) {
  Hash hash(id_digits);
  hash.add(fmt::format("{} {}", word_of(type), data.size()));
  hash.add(std::string_view("\0", 1));
  hash.add(data);
  return hash.finish();
}

Result<Inflated> inflate_exactly(std::string_view packed, std::size_t size) {
  if (size > kLargestGitObject) return fail(Code::Exhausted, "git object: too large");
  Inflater inflater;
  inflater.feed(packed);
  Inflated out;
  out.data.resize(size + 1);  // one more, to see whether there is more
  std::size_t filled = 0;
  while (!inflater.is_done()) {
    TRY(const std::size_t count, inflater.take(out.data.data() + filled, size + 1 - filled));
    filled += count;
    if (filled > size) return broken("more bytes than it says");
    if (count == 0 && !inflater.is_done()) return broken("cut off");
  }
  if (filled != size) return broken("fewer bytes than it says");
  out.data.resize(size);
  out.used = packed.size() - inflater.left();
  return out;
}

Result<GitObject> parse_loose_object(std::string_view file) {
  Inflater head;
  head.feed(file);
  std::array<char, kLongestHeader> start{};
  TRY(const std::size_t count, head.take(start.data(), start.size()));
  TRY(const Header header, parse_header({start.data(), count}));
  if (header.size > kLargestGitObject) return fail(Code::Exhausted, "git object: too large");
  TRY(Inflated whole, inflate_exactly(file, header.length + header.size));
  whole.data.erase(0, header.length);
  return GitObject{.type = header.type, .data = std::move(whole.data)};
}

Result<std::uint64_t> check_loose_object(const ReadPiece& read, std::string_view id,
                                         std::uint64_t most) {
  Inflater inflater;
  Hash hash(id.size());
  std::string piece;
  std::string out(kPiece, '\0');
  std::uint64_t total = 0;
  std::uint64_t expected = 0;
  while (!inflater.is_done()) {
    TRY(const std::size_t count, inflater.take(out.data(), out.size()));
    if (count == 0 && !inflater.is_done()) {
      // Only now is all of the input used up: there may be output left of it before.
      TRY(piece, read());
      if (piece.empty()) return broken("cut off");
      inflater.feed(piece);
      continue;
    }
    if (total == 0 && count > 0) {
      // The first piece of output has the whole header, or there is none that git would read.
      TRY(const Header header, parse_header({out.data(), count}));
      expected = header.length + header.size;
    }
    total += count;
    if (total > most) return fail(Code::Exhausted, "git object: too large to check");
    hash.add({out.data(), count});
  }
  if (total != expected) return broken("another size than it says");
  if (hash.finish() != id) return broken("its bytes are not those of its name");
  return total;
}

Result<GitCommit> parse_commit(std::string_view data) {
  GitCommit commit;
  TRY(commit.tree, take_id(data, "tree"));
  while (data.starts_with("parent ")) {
    if (commit.parents.size() == kMostParents) return broken("too many parents");
    TRY(ObjectId parent, take_id(data, "parent"));
    commit.parents.push_back(std::move(parent));
  }
  TRY_VOID(take_field(data, "author").map([](std::string_view) {}));
  TRY(const std::string_view committer, take_field(data, "committer"));
  commit.time = time_of(committer);
  return commit;
}

Result<ObjectId> parse_tag(std::string_view data) { return take_id(data, "object"); }

Result<std::vector<TreeEntry>> parse_tree(std::string_view data, std::size_t id_digits) {
  std::vector<TreeEntry> entries;
  std::set<std::string, std::less<>> names;
  const std::size_t id_bytes = id_digits / 2;
  while (!data.empty()) {
    const std::size_t space = data.find(' ');
    const std::size_t end = data.find('\0');
    if (end == std::string_view::npos || space >= end) return broken("an entry without a name");
    TRY(const unsigned mode, parse_mode(data.substr(0, space)));
    const std::string_view name = data.substr(space + 1, end - space - 1);
    if (!is_name_of_a_file(name) || !names.emplace(name).second) {
      return broken("a name that git refuses");
    }
    data.remove_prefix(end + 1);
    if (data.size() < id_bytes) return broken("an entry without an id");
    entries.push_back({mode, std::string(name), id_from_bytes(data.substr(0, id_bytes))});
    data.remove_prefix(id_bytes);
  }
  return entries;
}

}  // namespace glovebox::workspace
