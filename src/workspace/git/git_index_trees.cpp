#include "workspace/git/git_index_trees.h"

#include "workspace/tree/tree_fs.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace glovebox::workspace {
namespace {

// A tree takes seven bytes of the file, and far more in memory.
constexpr std::size_t kMostTrees = 1'000'000;

auto broken(std::string_view what) { return fail(Code::Invalid, "git index: {}", what); }
auto lie() { return broken("a tree that is not that of its entries"); }

std::string bytes_of(const ObjectId& id) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < id.size(); i += 2) {
    unsigned byte = 0;
    (void)std::from_chars(id.data() + i, id.data() + i + 2, byte, 16);  // id_from_bytes() made it
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// As the file has it: a name, how many entries, how many trees below, and an id. Without a count
// the directory has changed since, and there is no id.
struct Remembered {
  std::string_view name{};
  std::optional<std::uint64_t> count{};
  std::uint64_t trees = 0;
  ObjectId id{};
};

// The entries of a directory: their paths have the first `prefix` bytes in common.
struct Part {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t prefix = 0;
};

class Check {
 public:
  Check(std::string_view body, const std::vector<IndexEntry>& entries, std::size_t id_digits)
      : body_(body), entries_(entries), id_digits_(id_digits) {}

  Result<void> run() {
    TRY(const Remembered root, take());
    if (!root.name.empty()) return broken("a top directory with a name");
    TRY_VOID(check(root, {.first = 0, .last = entries_.size(), .prefix = 0}, 0));
    return body_.empty() ? Result<void>() : broken("trees after the last one");
  }

 private:
  using Ids = std::map<std::string_view, ObjectId>;  // of the directories below one, by name

  // "NAME\0COUNT TREES\n", and the id unless COUNT is negative.
  Result<Remembered> take() {
    if (++taken_ > kMostTrees) return fail(Code::Exhausted, "git index: too many trees");
    Remembered tree;
    const std::size_t zero = body_.find('\0');
    const std::size_t end = zero == std::string_view::npos ? zero : body_.find('\n', zero);
    if (end == std::string_view::npos) return broken("a tree that is cut off");
    tree.name = body_.substr(0, zero);
    const char* const last = body_.data() + end;
    std::int64_t count = 0;
    const auto first = std::from_chars(body_.data() + zero + 1, last, count);
    if (first.ec != std::errc() || first.ptr == last || *first.ptr != ' ') {
      return broken("a tree without a count");
    }
    const auto second = std::from_chars(first.ptr + 1, last, tree.trees);
    if (second.ec != std::errc() || second.ptr != last) return broken("a tree without a count");
    body_.remove_prefix(end + 1);
    if (count < 0) return tree;
    if (body_.size() < id_digits_ / 2) return broken("a tree that is cut off");
    tree.count = static_cast<std::uint64_t>(count);
    tree.id = id_from_bytes(body_.substr(0, id_digits_ / 2));
    body_.remove_prefix(id_digits_ / 2);
    return tree;
  }

  // The tree and all below it, which follow it in the file.
  Result<void> check(const Remembered& tree, const Part& part, std::size_t depth) {
    if (depth > kDeepestTree) return fail(Code::Exhausted, "git index: a tree that is too deep");
    Ids below;
    for (std::uint64_t i = 0; i < tree.trees; ++i) {
      TRY(const Remembered child, take());
      const bool is_name = !child.name.empty() && child.name.find('/') == std::string_view::npos;
      if (!is_name) return broken("a tree of a name that no directory has");
      TRY_VOID(check(child, find(part, child.name), depth + 1));
      if (!below.emplace(child.name, child.id).second) return broken("a tree twice");
    }
    if (!tree.count) return {};
    if (*tree.count != part.last - part.first) return lie();
    if (const IndexEntry* entry = sparse(part)) {
      return entry->id == tree.id && below.empty() ? Result<void>() : lie();
    }
    TRY(const std::string data, data_of(part, below));
    return object_name(ObjectType::Tree, data, id_digits_) == tree.id ? Result<void>() : lie();
  }

  // A directory of a sparse index is one entry, its own tree.
  const IndexEntry* sparse(const Part& part) const {
    if (part.last - part.first != 1) return nullptr;
    const IndexEntry& entry = entries_[part.first];
    return entry.path.size() == part.prefix ? &entry : nullptr;
  }

  // The entries of the directory `name`.
  Part find(const Part& part, std::string_view name) const {
    const auto rest = [&](const IndexEntry& entry) {
      return std::string_view(entry.path).substr(part.prefix, name.size() + 1);
    };
    const std::string start = std::string(name) + '/';
    const auto at = [&](std::size_t i) {
      return entries_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    const auto found =
        std::ranges::equal_range(at(part.first), at(part.last), std::string_view(start), {}, rest);
    return {.first = static_cast<std::size_t>(found.begin() - entries_.begin()),
            .last = static_cast<std::size_t>(found.end() - entries_.begin()),
            .prefix = part.prefix + start.size()};
  }

  // What git would write for the directory.
  Result<std::string> data_of(const Part& part, const Ids& below) const {
    std::string data;
    for (std::size_t i = part.first; i < part.last;) {
      const IndexEntry& entry = entries_[i];
      const std::string_view rest = std::string_view(entry.path).substr(part.prefix);
      const std::string_view name = rest.substr(0, rest.find('/'));
      unsigned mode = entry.mode;
      ObjectId id = entry.id;
      std::size_t next = i + 1;
      if (name.size() < rest.size()) {
        const auto found = below.find(name);
        if (found == below.end() || found->second.empty()) return lie();
        mode = 040000U;
        id = found->second;
        next = find(part, name).last;
      }
      data += fmt::format("{:o} {}", mode, name) + '\0' + bytes_of(id);
      i = next;
    }
    return data;
  }

  std::string_view body_;
  const std::vector<IndexEntry>& entries_;
  std::size_t id_digits_;
  std::size_t taken_ = 0;
};

}  // namespace

Result<void> check_remembered_trees(std::string_view body, const std::vector<IndexEntry>& entries,
                                    std::size_t id_digits) {
  return Check(body, entries, id_digits).run();
}

}  // namespace glovebox::workspace
