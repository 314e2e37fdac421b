#include "workspace/git/git_store.h"

#include "base/file.h"
#include "workspace/tree/printable.h"

#include <algorithm>
#include <cerrno>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kMostPacks = 1000;
constexpr std::size_t kMostPackedObjects = 1'000'000;
constexpr std::size_t kPiece = std::size_t{64} << 10;

bool is_missing(const Error& error) {
  return error.os_errno == ENOENT || error.os_errno == ENOTDIR;
}

std::string without_end(std::string_view path) {
  return std::string(path.substr(0, path.rfind('.')));
}

}  // namespace

Result<UniqueFd> GitStore::open(const std::string& path) const {
  if (brought_.has(path)) return brought_.open(path);
  return open_regular_beneath(original_, path);
}

Result<GitObject> GitStore::read_loose(const ObjectId& id) const {
  const std::string path = join_path(objects_, id.substr(0, 2) + "/" + id.substr(2));
  TRY(const UniqueFd file, open(path));
  TRY(const std::string bytes, read_fd(file, kLargestGitObject));
  auto object = parse_loose_object(bytes);
  // One that breaks off late takes as much work as a whole one.
  const std::uint64_t size = object ? object->data.size() : kLargestGitObject;
  if (size > *work_) return fail(Code::Exhausted, "git objects: too much work");
  *work_ -= size;
  return object;
}

Result<void> GitStore::open_pack(const std::string& stem) {
  if (packs_.contains(stem)) return {};
  if (packs_.size() == kMostPacks) return fail(Code::Exhausted, "too many packs");
  TRY(UniqueFd index_file, open(stem + ".idx"));
  TRY(UniqueFd pack_file, open(stem + ".pack"));
  TRY(RandomBytes index, RandomBytes::of_file(std::move(index_file)));
  TRY(RandomBytes pack, RandomBytes::of_file(std::move(pack_file)));
  TRY(GitPack opened, GitPack::open(std::move(index), std::move(pack), id_digits_, work_));
  packs_.emplace(stem, std::move(opened));
  return {};
}

Result<void> GitStore::open_packs() {
  if (has_packs_) return {};
  has_packs_ = true;
  const std::string place = join_path(objects_, "pack");
  const std::string first = place + "/";
  for (auto at = brought_.paths->lower_bound(first);
       at != brought_.paths->end() && at->starts_with(first); ++at) {
    if (at->ends_with(".idx")) TRY_VOID(open_pack(without_end(*at)));
  }
  const auto path = open_directory_beneath(original_, place);
  if (!path) return is_missing(path.error()) ? Result<void>() : tl::unexpected(path.error());
  TRY(const UniqueFd dir, open_directory(*path, "."));
  TRY(const auto entries, list_directory(dir));
  for (const Entry& entry : entries) {
    if (!entry.name.ends_with(".idx")) continue;
    // An index whose pack has gone in between is one that git does not use either.
    const auto opened = open_pack(join_path(place, without_end(entry.name)));
    if (!opened && !is_missing(opened.error())) return opened;
  }
  return {};
}

Result<std::shared_ptr<const GitObject>> GitStore::read(const ObjectId& id) {
  if (!is_object_id(id) || id.size() != id_digits_) {
    return fail(Code::Invalid, "git object: '{}' is no name", printable(id));
  }
  std::shared_ptr<const GitObject> object;
  auto loose = read_loose(id);
  if (loose) {
    object = std::make_shared<const GitObject>(*std::move(loose));
  } else if (!is_missing(loose.error())) {
    return tl::unexpected(std::move(loose).error());
  }
  if (!object) TRY_VOID(open_packs());
  for (auto pack = packs_.begin(); !object && pack != packs_.end(); ++pack) {
    TRY(const auto offset, pack->second.find(id));
    if (offset) {
      TRY(object, pack->second.read(*offset));
    }
  }
  if (!object) return fail(Code::NotFound, "git object {} is not there", id);
  if (object_name(object->type, object->data, id_digits_) != id) {
    return fail(Code::Denied, "git object {}: its bytes are not those of its name", id);
  }
  return object;
}

Result<std::shared_ptr<const GitObject>> GitStore::read(const ObjectId& id, ObjectType type) {
  TRY(auto object, read(id));
  if (object->type != type) return fail(Code::Invalid, "git object {}: of another type", id);
  return object;
}

Result<void> GitStore::check_brought(const std::string& path, std::uint64_t& budget) {
  const std::string below = path.substr(objects_.size() + 1);
  if (below.starts_with("pack/")) {
    const bool is_pack = below.ends_with(".idx") || below.ends_with(".pack");
    return is_pack ? check_pack(without_end(path), budget) : Result<void>();
  }
  if (below.size() != id_digits_ + 1 || below[2] != '/') return {};
  const ObjectId id = below.substr(0, 2) + below.substr(3);
  if (!is_object_id(id)) return {};
  TRY(UniqueFd file, brought_.open(path));
  TRY(const RandomBytes bytes, RandomBytes::of_file(std::move(file)));
  std::uint64_t at = 0;
  const auto piece = [&]() -> Result<std::string> {
    const std::size_t count = std::min<std::uint64_t>(kPiece, bytes.size() - at);
    at += count;
    return bytes.read(at - count, count);
  };
  TRY(const std::uint64_t size, check_loose_object(piece, id, budget));
  budget -= size;
  return {};
}

Result<void> GitStore::check_pack(const std::string& stem, std::uint64_t& budget) {
  // A pack is two files, and either may come first.
  if (packs_.contains(stem)) return {};
  TRY_VOID(open_pack(stem));
  GitPack& pack = packs_.at(stem);
  if (pack.size() > kMostPackedObjects) return fail(Code::Exhausted, "too many objects to check");
  TRY(const auto places, pack.places());
  for (const GitPack::Place& place : places) {
    TRY(const auto object, pack.read(place.offset));
    if (object->data.size() > budget) return fail(Code::Exhausted, "too large to check");
    budget -= object->data.size();
    if (object_name(object->type, object->data, id_digits_) != place.id) {
      return fail(Code::Denied, "git object {}: its bytes are not those of its name", place.id);
    }
  }
  return {};
}

}  // namespace glovebox::workspace
