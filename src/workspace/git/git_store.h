// The objects of one repository: those that a commit brings and those that the original has.
//
// An object is given out only when its bytes hash to its name. So it does not matter whether it was
// read from the box's tree, from the staged copy or from the original, nor what else calls itself
// by that name.
#pragma once

#include "workspace/git/git_pack.h"
#include "workspace/tree/tree_fs.h"

#include <functional>
#include <map>
#include <set>

namespace glovebox::workspace {

// The files that a commit brings, by their paths in the workspace.
struct Brought {
  const std::set<std::string>* paths = nullptr;
  std::function<Result<UniqueFd>(const std::string& path)> open{};

  bool has(const std::string& path) const { return paths->contains(path); }
};

class GitStore {
 public:
  // `objects` is the path of the directory of objects in the workspace. No more than `work` bytes
  // are inflated or put together in all.
  GitStore(std::string objects, const Brought& brought, BorrowedFd original, std::size_t id_digits,
           std::uint64_t work = kMostPackWork)
      : objects_(std::move(objects)),
        brought_(brought),
        original_(original),
        id_digits_(id_digits),
        work_(std::make_shared<std::uint64_t>(work)) {}

  std::size_t id_digits() const { return id_digits_; }
  // Code::NotFound when neither side has it.
  Result<std::shared_ptr<const GitObject>> read(const ObjectId& id);
  Result<std::shared_ptr<const GitObject>> read(const ObjectId& id, ObjectType type);

  // Whether what the commit brings at `path`, a file in the directory of objects, is what its name
  // says: a loose object, or a pack with all that its index names. `budget` bytes are looked at, at
  // most, and what was looked at is taken off it. Other files are fine.
  Result<void> check_brought(const std::string& path, std::uint64_t& budget);

 private:
  Result<void> open_packs();
  Result<void> open_pack(const std::string& stem);
  Result<UniqueFd> open(const std::string& path) const;
  Result<GitObject> read_loose(const ObjectId& id) const;
  Result<void> check_pack(const std::string& stem, std::uint64_t& budget);

  std::string objects_;
  const Brought& brought_;
  BorrowedFd original_;
  std::size_t id_digits_;
  bool has_packs_ = false;
  WorkLeft work_;
  std::map<std::string, GitPack> packs_;  // by path without ".pack" and ".idx"
};

}  // namespace glovebox::workspace
