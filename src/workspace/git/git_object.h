// Git's objects as values, read from bytes that a box may have written.
//
// An attacker would like us to inflate without end, to loop, to take one object for another, or to
// read a tree in another way than git does. Every amount has a bound, and what does not follow the
// format to the letter is an error: who asks then holds the change back. An object is only believed
// when its bytes hash to its name, so it does not matter from which file it came, or when.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::workspace {

// The largest object that is read whole. Trees and commits are far smaller.
inline constexpr std::size_t kLargestGitObject = std::size_t{64} << 20;

// Names of objects are lower-case hexadecimal digits: 40 (SHA-1) or 64 (SHA-256).
using ObjectId = std::string;
bool is_object_id(std::string_view text);
// "0000...": git's word for no object.
bool is_null_id(std::string_view id);
std::string id_from_bytes(std::string_view bytes);

enum class ObjectType : std::uint8_t { Commit = 1, Tree = 2, Blob = 3, Tag = 4 };

struct GitObject {
  ObjectType type = ObjectType::Blob;
  std::string data{};

  friend bool operator==(const GitObject&, const GitObject&) = default;
};

// The name that git gives to these bytes, in a repository whose names have `id_digits` digits.
ObjectId object_name(ObjectType type, std::string_view data, std::size_t id_digits);

// Inflates a zlib stream of exactly `size` bytes; nothing may follow in the stream. `used` is how
// many bytes of `packed` it took.
struct Inflated {
  std::string data{};
  std::size_t used = 0;
};
Result<Inflated> inflate_exactly(std::string_view packed, std::size_t size);

// A file of objects/xx/: its object, not checked against its name.
Result<GitObject> parse_loose_object(std::string_view file);

// Checks a file of objects/xx/ against its name without holding all of it, whatever its size.
// Returns how many bytes it holds; more than `most` is Code::Exhausted.
using ReadPiece = std::function<Result<std::string>()>;  // empty at the end
Result<std::uint64_t> check_loose_object(const ReadPiece& read, std::string_view id,
                                         std::uint64_t most);

struct GitCommit {
  ObjectId tree{};
  std::vector<ObjectId> parents{};
  std::int64_t time = 0;  // of the committer; 0 when it makes no sense

  friend bool operator==(const GitCommit&, const GitCommit&) = default;
};
Result<GitCommit> parse_commit(std::string_view data);

// The object that an annotated tag names.
Result<ObjectId> parse_tag(std::string_view data);

struct TreeEntry {
  unsigned mode = 0;  // 040000 tree, 0100644, 0100755, 0120000 link, 0160000 commit of a submodule
  std::string name{};
  ObjectId id{};

  bool is_tree() const { return mode == 040000U; }
  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};
// An entry with a name that a file cannot have, twice the same name, or an unknown mode is an
// error.
Result<std::vector<TreeEntry>> parse_tree(std::string_view data, std::size_t id_digits);

}  // namespace glovebox::workspace
