#include "session/hidden_places.h"

#include "host/path_facts.h"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

constexpr std::size_t kMostHeld = 64;  // a name that is given to ever new files is no leak of ours

bool is_same(const struct stat& left, const struct stat& right) {
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

// Where it is now; empty when it is nowhere any more.
std::string path_of(const UniqueFd& place) {
  struct stat facts{};
  if (::fstat(place.get(), &facts) != 0 || facts.st_nlink == 0) return {};
  std::array<char, 4096> text{};
  const std::string link = "/proc/self/fd/" + std::to_string(place.get());
  const ssize_t size = ::readlink(link.c_str(), text.data(), text.size());
  if (size <= 0 || static_cast<std::size_t>(size) == text.size() || text[0] != '/') return {};
  return {text.data(), static_cast<std::size_t>(size)};
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
  (void)paths();  // what is there now is held from now on
  return {};
}

// What has the name is held, beside what had it before.
void HiddenPlaces::remember(const std::string& name) {
  UniqueFd place(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts{};
  if (!place || ::fstat(place.get(), &facts) != 0) return;  // nothing is there to be moved
  const bool is_held = std::ranges::any_of(held_, [&](const Held& held) {
    struct stat other{};
    return held.name == name && ::fstat(held.place.get(), &other) == 0 && is_same(facts, other);
  });
  if (is_held) return;
  if (held_.size() == kMostHeld) held_.erase(held_.begin());
  held_.push_back({name, std::move(place)});
}

std::vector<std::string> HiddenPlaces::paths() {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> paths = names_;
  for (const std::string& name : names_) remember(name);
  for (const std::string& name : later_) {
    remember(name);
    struct stat facts{};
    if (::lstat(name.c_str(), &facts) == 0) paths.push_back(name);
  }
  for (const Held& held : held_) {
    std::string now = path_of(held.place);
    if (!now.empty() && now != held.name) paths.push_back(std::move(now));
  }
  std::ranges::sort(paths);
  const auto repeated = std::ranges::unique(paths);
  paths.erase(repeated.begin(), repeated.end());
  return paths;
}

}  // namespace glovebox::session
