#include "request/hidden_places.h"

#include "base/file.h"
#include "host/path_facts.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

bool is_same(const struct stat& left, const struct stat& right) {
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

// No name leads to it, and none ever will.
bool is_gone(const UniqueFd& place) {
  struct stat facts{};
  return ::fstat(place.get(), &facts) == 0 && facts.st_nlink == 0;
}

// Where it is now; empty when it is nowhere any more.
Result<std::string> present_path_of(const UniqueFd& place) {
  if (is_gone(place)) return std::string();
  return path_of(place);
}

}  // namespace

Result<void> HiddenPlaces::open(std::vector<std::string> names, std::vector<std::string> later) {
  for (std::vector<std::string>* list : {&names, &later}) {
    for (std::string& name : *list) {
      TRY(name, host::resolve_new_path(name));
    }
  }
  names_ = std::move(names);
  later_ = std::move(later);
  TRY_VOID(paths());  // what is there now is held from now on
  return {};
}

// What has the name is held, beside all that had it before: a box that may write there can give
// the name to others, and must not make us forget what it was about.
Result<HiddenPlaces::Found> HiddenPlaces::remember(const std::string& name) {
  UniqueFd place(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place && (errno == ENOENT || errno == ENOTDIR)) return Found::Nothing;
  struct stat facts{};
  if (!place || ::fstat(place.get(), &facts) != 0) return fail_os(errno, "look at {}", name);
  const bool is_held = std::ranges::any_of(held_, [&](const Held& held) {
    struct stat other{};
    return held.name == name && ::fstat(held.place.get(), &other) == 0 && is_same(facts, other);
  });
  if (is_held) return Found::Something;
  if (held_.size() >= kMostHeld)
    std::erase_if(held_, [](const Held& held) { return is_gone(held.place); });
  if (held_.size() >= kMostHeld) {
    return fail(
        Code::Denied,
        "{}: it was replaced again and again; see who does that, and start the service anew", name);
  }
  held_.push_back({name, std::move(place)});
  return Found::Something;
}

Result<std::vector<std::string>> HiddenPlaces::paths() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> paths = names_;
  for (const std::string& name : names_) TRY_VOID(remember(name));
  for (const std::string& name : later_) {
    TRY(const Found found, remember(name));
    if (found == Found::Something) paths.push_back(name);
  }
  for (const Held& held : held_) {
    TRY(std::string now, present_path_of(held.place));
    if (!now.empty() && now != held.name) paths.push_back(std::move(now));
  }
  std::ranges::sort(paths);
  const auto repeated = std::ranges::unique(paths);
  paths.erase(repeated.begin(), repeated.end());
  return paths;
}

}  // namespace glovebox::session
