// A pack of git objects with its index (version 2), read as hostile data.
//
// Every number in the files is a claim: places, sizes and counts are checked against the files'
// sizes, chains of deltas have a bound, and what an object inflates to is what it says or an error.
// Nothing here says that an object is the one that the index calls by that name: the caller hashes.
#pragma once

#include "base/unique_fd.h"
#include "workspace/git/git_object.h"

#include <memory>
#include <optional>
#include <unordered_map>

namespace glovebox::workspace {

// git makes chains of 50, and of 4095 at most.
inline constexpr std::size_t kLongestDeltaChain = 4096;

// Bytes that may still be made out of packs, by inflating and by deltas: small files can ask for
// any amount of work. Several packs may share one.
using WorkLeft = std::shared_ptr<std::uint64_t>;
inline constexpr std::uint64_t kMostPackWork = std::uint64_t{2} << 30;

// Bytes that are read at any place: of a file that may shrink meanwhile, or in memory.
class RandomBytes {
 public:
  static Result<RandomBytes> of_file(UniqueFd file);
  static RandomBytes of_text(std::string text);

  std::uint64_t size() const { return size_; }
  // Exactly that many, or an error.
  Result<std::string> read(std::uint64_t offset, std::size_t count) const;

 private:
  UniqueFd file_;
  std::string text_;
  std::uint64_t size_ = 0;
};

class GitPack {
 public:
  static Result<GitPack> open(RandomBytes index, RandomBytes pack, std::size_t id_digits,
                              WorkLeft work);

  std::size_t size() const { return fanout_.back(); }
  // Where the object is in the pack, by the index; nothing when it has none of that name.
  Result<std::optional<std::uint64_t>> find(std::string_view id) const;

  struct Place {
    ObjectId id{};
    std::uint64_t offset = 0;
  };
  // All that the index names, in the order of the pack.
  Result<std::vector<Place>> places() const;

  // The whole object. Objects that deltas build on are kept for a while, within a bound.
  Result<std::shared_ptr<const GitObject>> read(std::uint64_t offset);

 private:
  // One entry of the pack as it is stored.
  struct Stored {
    unsigned kind = 0;       // a type of object, or one of the two kinds of delta
    std::uint64_t base = 0;  // of a delta: where its base is
    std::string data{};
  };
  GitPack(RandomBytes index, RandomBytes pack, std::size_t id_digits, WorkLeft work)
      : index_(std::move(index)),
        pack_(std::move(pack)),
        id_bytes_(id_digits / 2),
        work_(std::move(work)) {}

  Result<void> read_fanout();
  Result<void> spend(std::size_t bytes) const;
  Result<std::string> id_at(std::size_t position) const;
  Result<std::uint64_t> offset_at(std::size_t position) const;
  Result<Stored> read_stored(std::uint64_t offset) const;
  Result<std::uint64_t> read_base(std::uint64_t offset, Stored& stored,
                                  std::string_view& rest) const;
  void keep(std::uint64_t offset, std::shared_ptr<const GitObject> object);

  RandomBytes index_;
  RandomBytes pack_;
  std::size_t id_bytes_;
  WorkLeft work_;
  std::vector<std::uint32_t> fanout_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const GitObject>> kept_;
  std::size_t kept_bytes_ = 0;
};

// What a delta makes of its base.
Result<std::string> apply_delta(std::string_view base, std::string_view delta);

}  // namespace glovebox::workspace
