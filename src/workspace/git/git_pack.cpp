#include "workspace/git/git_pack.h"

#include "workspace/tree/tree_fs.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr std::string_view kIndexMagic("\xfftOc\0\0\0\2", 8);
constexpr std::size_t kFanout = 256;
constexpr std::size_t kIndexHeader = 8 + kFanout * 4;
constexpr std::size_t kPackHeader = 12;
constexpr unsigned kOffsetDelta = 6;
constexpr unsigned kNamedDelta = 7;
constexpr std::uint32_t kFarOffset = 0x80000000U;
constexpr std::size_t kMostKept = std::size_t{48} << 20;
// Of a chain of deltas, all together.
constexpr std::size_t kMostDeltas = 2 * kLargestGitObject;
constexpr std::size_t kFirstRead = 4096;

auto broken(std::string_view what) { return fail(Code::Invalid, "git pack: {}", what); }

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8U | static_cast<unsigned char>(byte);
  return number;
}

// Seven bits a byte, the lowest first, as sizes are written.
Result<std::uint64_t> take_size(std::string_view& bytes, std::uint64_t first, unsigned shift) {
  std::uint64_t size = first;
  for (;; shift += 7) {
    if (bytes.empty() || shift > 56) return broken("a size that does not end");
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    size |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if ((byte & 0x80U) == 0) return size;
  }
}

// How far before a delta its base is. Each byte but the last counts one more than its bits.
Result<std::uint64_t> take_distance(std::string_view& bytes) {
  std::uint64_t distance = 0;
  for (unsigned count = 0; count < 8 && !bytes.empty(); ++count) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    distance = (count == 0 ? 0 : (distance + 1) << 7U) | (byte & 0x7fU);
    if ((byte & 0x80U) == 0) return distance;
  }
  return broken("a distance that does not end");
}

// The numbers of a copying instruction: only the bytes that the mask names are there.
Result<std::uint64_t> take_masked(std::string_view& delta, unsigned mask, unsigned count) {
  std::uint64_t number = 0;
  for (unsigned i = 0; i < count; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    if (delta.empty()) return broken("a delta that is cut off");
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(delta.front())) << (8 * i);
    delta.remove_prefix(1);
  }
  return number;
}

Result<std::string_view> copied(std::string_view base, std::string_view& delta, unsigned word) {
  TRY(const std::uint64_t from, take_masked(delta, word & 0xfU, 4));
  TRY(std::uint64_t count, take_masked(delta, word >> 4U & 7U, 3));
  if (count == 0) count = 0x10000;
  if (from > base.size() || count > base.size() - from) return broken("a copy from nowhere");
  return base.substr(from, count);
}

}  // namespace

Result<std::string> apply_delta(std::string_view base, std::string_view delta) {
  TRY(const std::uint64_t base_size, take_size(delta, 0, 0));
  TRY(const std::uint64_t size, take_size(delta, 0, 0));
  if (base_size != base.size()) return broken("a delta of another base");
  if (size > kLargestGitObject) return fail(Code::Exhausted, "git object: too large");
  std::string out;
  out.reserve(size);
  while (!delta.empty()) {
    const auto word = static_cast<unsigned char>(delta.front());
    delta.remove_prefix(1);
    std::string_view piece;
    if ((word & 0x80U) != 0) {
      TRY(piece, copied(base, delta, word));
    } else {
      if (word == 0 || word > delta.size()) return broken("an unknown instruction of a delta");
      piece = delta.substr(0, word);
      delta.remove_prefix(word);
    }
    if (piece.size() > size - out.size()) return broken("a delta that makes too much");
    out += piece;
  }
  if (out.size() != size) return broken("a delta that makes too little");
  return out;
}

Result<RandomBytes> RandomBytes::of_file(UniqueFd file) {
  TRY(const Node node, look(file));
  RandomBytes bytes;
  bytes.size_ = node.size;
  bytes.file_ = std::move(file);
  return bytes;
}

RandomBytes RandomBytes::of_text(std::string text) {
  RandomBytes bytes;
  bytes.size_ = text.size();
  bytes.text_ = std::move(text);
  return bytes;
}

Result<std::string> RandomBytes::read(std::uint64_t offset, std::size_t count) const {
  if (offset > size_ || count > size_ - offset) return broken("a place beyond the end");
  if (!file_) return text_.substr(offset, count);
  std::string out(count, '\0');
  std::size_t filled = 0;
  while (filled < count) {
    const ssize_t n = ::pread(file_.get(), out.data() + filled, count - filled,
                              static_cast<off_t>(offset + filled));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_os(errno, "read a git pack");
    if (n == 0) return broken("it became shorter");
    filled += static_cast<std::size_t>(n);
  }
  return out;
}

Result<GitPack> GitPack::open(RandomBytes index, RandomBytes pack, std::size_t id_digits,
                              WorkLeft work) {
  GitPack opened(std::move(index), std::move(pack), id_digits, std::move(work));
  TRY_VOID(opened.read_fanout());
  TRY(const std::string head, opened.pack_.read(0, kPackHeader));
  const std::uint64_t version = big_endian(std::string_view(head).substr(4, 4));
  if (!head.starts_with("PACK") || (version != 2 && version != 3)) return broken("no pack");
  return opened;
}

Result<void> GitPack::spend(std::size_t bytes) const {
  if (bytes > *work_) return fail(Code::Exhausted, "git pack: too much work");
  *work_ -= bytes;
  return {};
}

Result<void> GitPack::read_fanout() {
  TRY(const std::string head, index_.read(0, kIndexHeader));
  if (!head.starts_with(kIndexMagic)) return broken("an index of an unknown version");
  for (std::size_t i = 0; i < kFanout; ++i) {
    const auto count = static_cast<std::uint32_t>(big_endian(head.substr(8 + i * 4, 4)));
    if (!fanout_.empty() && count < fanout_.back()) return broken("an index out of order");
    fanout_.push_back(count);
  }
  // Name, checksum and place of each object, and the two hashes at the end.
  const std::uint64_t least =
      kIndexHeader + std::uint64_t{size()} * (id_bytes_ + 8) + 2 * id_bytes_;
  if (index_.size() < least) return broken("an index that is cut off");
  return {};
}

Result<std::string> GitPack::id_at(std::size_t position) const {
  return index_.read(kIndexHeader + position * id_bytes_, id_bytes_);
}

Result<std::uint64_t> GitPack::offset_at(std::size_t position) const {
  const std::uint64_t places = kIndexHeader + std::uint64_t{size()} * (id_bytes_ + 4);
  TRY(const std::string near, index_.read(places + position * 4, 4));
  const std::uint64_t offset = big_endian(near);
  if ((offset & kFarOffset) == 0) return offset;
  const std::uint64_t far =
      places + std::uint64_t{size()} * 4 + (offset & ~std::uint64_t{kFarOffset}) * 8;
  TRY(const std::string bytes, index_.read(far, 8));
  return big_endian(bytes);
}

Result<std::optional<std::uint64_t>> GitPack::find(std::string_view id) const {
  if (id.size() != id_bytes_ * 2) return std::optional<std::uint64_t>();
  const std::size_t first = std::stoul(std::string(id.substr(0, 2)), nullptr, 16);
  std::size_t low = first == 0 ? 0 : fanout_[first - 1];
  std::size_t high = fanout_[first];
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    TRY(const std::string bytes, id_at(middle));
    const int order = id_from_bytes(bytes).compare(id);
    if (order == 0) {
      TRY(const std::uint64_t offset, offset_at(middle));
      return std::optional(offset);
    }
    (order < 0 ? low : high) = order < 0 ? middle + 1 : middle;
  }
  return std::optional<std::uint64_t>();
}

Result<std::vector<GitPack::Place>> GitPack::places() const {
  std::vector<Place> found;
  for (std::size_t i = 0; i < size(); ++i) {
    TRY(const std::string bytes, id_at(i));
    TRY(const std::uint64_t offset, offset_at(i));
    found.push_back({.id = id_from_bytes(bytes), .offset = offset});
  }
  std::sort(found.begin(), found.end(),
            [](const Place& a, const Place& b) { return a.offset < b.offset; });
  return found;
}

// Where the base of a delta is; takes what says so off the front of `rest`.
Result<std::uint64_t> GitPack::read_base(std::uint64_t offset, Stored& stored,
                                         std::string_view& rest) const {
  if (stored.kind == kOffsetDelta) {
    TRY(const std::uint64_t distance, take_distance(rest));
    if (distance == 0 || distance > offset) return broken("a base before the pack");
    return offset - distance;
  }
  if (rest.size() < id_bytes_) return broken("a delta without a base");
  TRY(const auto place, find(id_from_bytes(rest.substr(0, id_bytes_))));
  if (!place) return broken("a base that is not in the pack");
  rest.remove_prefix(id_bytes_);
  return *place;
}

Result<GitPack::Stored> GitPack::read_stored(std::uint64_t offset) const {
  if (offset < kPackHeader || offset >= pack_.size()) return broken("a place beyond the end");
  const std::uint64_t left = pack_.size() - offset;
  TRY(std::string bytes, pack_.read(offset, std::min<std::uint64_t>(left, kFirstRead)));
  std::string_view rest(bytes);
  const auto first = static_cast<unsigned char>(rest.front());
  rest.remove_prefix(1);
  std::uint64_t size = first & 0xfU;
  if ((first & 0x80U) != 0) {
    TRY(size, take_size(rest, size, 4));
  }
  if (size > kLargestGitObject) return fail(Code::Exhausted, "git object: too large");
  Stored stored{.kind = first >> 4U & 7U};
  if (stored.kind == 0 || stored.kind == 5) return broken("an unknown kind of object");
  if (stored.kind >= kOffsetDelta) {
    TRY(stored.base, read_base(offset, stored, rest));
  }
  // What does not compress is a little longer than it was (deflateBound in zlib.h).
  const std::uint64_t longest = size + size / 1000 + 64;
  const std::size_t head = bytes.size() - rest.size();
  if (rest.size() < longest && bytes.size() < left) {
    TRY(bytes, pack_.read(offset, std::min<std::uint64_t>(left, head + longest)));
    rest = std::string_view(bytes).substr(head);
  }
  TRY_VOID(spend(size));
  TRY(Inflated inflated, inflate_exactly(rest, size));
  stored.data = std::move(inflated.data);
  return stored;
}

void GitPack::keep(std::uint64_t offset, std::shared_ptr<const GitObject> object) {
  kept_bytes_ += object->data.size();
  if (kept_bytes_ > kMostKept) {
    kept_.clear();
    kept_bytes_ = object->data.size();
  }
  kept_.insert_or_assign(offset, std::move(object));
}

Result<std::shared_ptr<const GitObject>> GitPack::read(std::uint64_t offset) {
  std::vector<std::pair<std::uint64_t, std::string>> deltas;
  std::size_t bytes = 0;
  std::shared_ptr<const GitObject> object;
  for (std::uint64_t at = offset; !object;) {
    if (const auto found = kept_.find(at); found != kept_.end()) {
      object = found->second;
      break;
    }
    TRY(Stored stored, read_stored(at));
    if (stored.kind < 5) {
      object = std::make_shared<const GitObject>(
          GitObject{static_cast<ObjectType>(stored.kind), std::move(stored.data)});
      keep(at, object);
      break;
    }
    bytes += stored.data.size();
    // A chain of named bases may also be a ring.
    if (deltas.size() == kLongestDeltaChain || bytes > kMostDeltas) {
      return fail(Code::Exhausted, "git pack: a chain of deltas that is too long");
    }
    deltas.emplace_back(at, std::move(stored.data));
    at = stored.base;
  }
  for (auto delta = deltas.rbegin(); delta != deltas.rend(); ++delta) {
    TRY(std::string data, apply_delta(object->data, delta->second));
    TRY_VOID(spend(data.size()));
    object = std::make_shared<const GitObject>(GitObject{object->type, std::move(data)});
    keep(delta->first, object);
  }
  return object;
}

}  // namespace glovebox::workspace
