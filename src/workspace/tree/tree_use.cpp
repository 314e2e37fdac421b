#include "workspace/tree/tree_use.h"

#include "workspace/tree/tree_fs.h"

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::workspace {
namespace {

// A layer keeps what its box wrote a few directories below its own.
constexpr std::size_t kDeepest = kDeepestTree + 8;
// A path that is longer is walked from a directory on its way, which stays open for that. With the
// longest name behind it, it is still one that the kernel takes.
constexpr std::size_t kLongestWalk = 3'000;
constexpr std::size_t kCostOfName = 64;
constexpr std::uint64_t kBlock = 512;  // of st_blocks, on every filesystem

struct CloseStream {
  void operator()(DIR* stream) const { (void)::closedir(stream); }
};

// A directory on the way down, with those in it that are still to be visited.
struct Level {
  std::shared_ptr<const UniqueFd> anchor;
  std::string path;  // from the anchor
  std::vector<std::string> below;
};

class Meter {
 public:
  explicit Meter(std::string_view shut) : shut_(shut) {}

  Result<TreeUse> run(BorrowedFd top) {
    TRY(UniqueFd anchor, open_directory(top, "."));
    Level root{std::make_shared<const UniqueFd>(std::move(anchor)), {}, {}};
    TRY(UniqueFd listed, open_directory(top, "."));
    TRY_VOID(list(std::move(listed), root));
    levels_.push_back(std::move(root));
    while (!levels_.empty()) {
      if (levels_.back().below.empty()) {
        levels_.pop_back();
        continue;
      }
      TRY_VOID(descend());
    }
    return use_;
  }

 private:
  Result<void> descend() {
    Level& above = levels_.back();
    const std::string name = std::move(above.below.back());
    above.below.pop_back();
    pending_ -= name.size() + kCostOfName;
    if (levels_.size() >= kDeepest) {
      use_.is_boundless = true;
      return {};
    }
    Level level{above.anchor, join_path(above.path, name), {}};
    auto opened = open_directory(*level.anchor, level.path);
    if (!opened && is_ours(opened.error())) return unexpected(opened.error());
    if (!opened) {
      if (level.path != shut_) look_at(opened.error().os_errno);
      return {};
    }
    if (level.path.size() > kLongestWalk) {
      TRY(UniqueFd anchor, open_directory(*opened, "."));
      level.anchor = std::make_shared<const UniqueFd>(std::move(anchor));
      level.path.clear();
    }
    TRY_VOID(list(*std::move(opened), level));
    if (!level.below.empty()) levels_.push_back(std::move(level));
    return {};
  }

  // What is shut cannot be counted; what is gone need not be.
  void look_at(int problem) {
    if (problem == EACCES) use_.has_shut = true;
  }

  // Whether we are short of something, rather than the directory being gone or shut.
  static bool is_ours(const Error& error) {
    return error.os_errno == EMFILE || error.os_errno == ENFILE || error.os_errno == ENOMEM;
  }

  Result<void> list(UniqueFd dir, Level& level) {
    const std::unique_ptr<DIR, CloseStream> stream(::fdopendir(dir.get()));
    if (!stream) return fail_os(errno, "list a directory");
    (void)dir.release();  // the stream closes it
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info{};
      if (::fstatat(::dirfd(stream.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        look_at(errno);
        continue;
      }
      use_.bytes += static_cast<std::uint64_t>(info.st_blocks) * kBlock;
      if (S_ISDIR(info.st_mode)) keep(name, level);
    }
    return {};
  }

  void keep(const std::string& name, Level& level) {
    const std::size_t cost = name.size() + kCostOfName;
    if (pending_ + cost > kMostPendingNames) {
      use_.is_boundless = true;
      return;
    }
    pending_ += cost;
    level.below.push_back(name);
  }

  std::string_view shut_;
  TreeUse use_;
  std::vector<Level> levels_;
  std::size_t pending_ = 0;
};

}  // namespace

Result<TreeUse> measure_tree(BorrowedFd dir, std::string_view shut) { return Meter(shut).run(dir); }

}  // namespace glovebox::workspace
