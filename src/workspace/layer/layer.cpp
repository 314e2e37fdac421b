#include "workspace/layer/layer.h"

#include "base/file.h"
#include "launch/loop_image.h"
#include "workspace/layer/image.h"
#include "workspace/layer/layer_json.h"
#include "workspace/tree/private_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

constexpr std::size_t kLargestRecord = std::size_t{256} << 20;
constexpr std::int64_t kIdStep = 1'000'000;  // what two ids differ by that sort by time
constexpr const char* kInMemory = "in-memory";
constexpr const char* kImage = "image";

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

Result<std::string> make_id(std::int64_t time) {
  std::array<unsigned char, 3> salt{};
  if (::getrandom(salt.data(), salt.size(), 0) != static_cast<ssize_t>(salt.size())) {
    return fail_os(errno, "read random bytes");
  }
  const time_t seconds = time / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{:03}-{:02x}{:02x}{:02x}",
                     parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min, parts.tm_sec, time / 1'000'000 % 1000, salt[0], salt[1],
                     salt[2]);
}

Result<void> make_owned(BorrowedFd dir, const char* name, unsigned mode, const LayerFacts& facts) {
  if (::mkdirat(dir.get(), name, 0700) != 0) return fail_os(errno, "make {}", name);
  const bool is_ours = facts.upper_uid == ::geteuid() && facts.upper_gid == ::getegid();
  if (!is_ours && ::fchownat(dir.get(), name, facts.upper_uid, facts.upper_gid, 0) != 0) {
    return fail_os(errno, "give {} to uid {}", name, facts.upper_uid);
  }
  if (::fchmodat(dir.get(), name, mode, 0) != 0) return fail_os(errno, "set the mode of {}", name);
  return {};
}

// The overlay shows the mode of its upper root as that of the workspace.
Result<void> fill_layer(BorrowedFd dir, const LayerFacts& facts, const Base& base, unsigned mode) {
  TRY_VOID(make_owned(dir, "box", 0700, facts));
  TRY(const UniqueFd box, open_directory(dir, "box"));
  TRY_VOID(make_owned(box, "upper", mode, facts));
  TRY_VOID(make_owned(box, "work", 0700, facts));
  TRY_VOID(write_record(dir, "base.json", encode_base(base), Durability::Lazy));
  return write_record(dir, "layer.json", encode_facts(facts), Durability::Lazy);
}

// Where the upper is, when it is not in the layer's directory.
Result<void> make_backing(const LayerRoot& root, BorrowedFd dir, const std::string& draft,
                          const LayerRequest& request, const LayerFacts& facts, unsigned mode) {
  if (request.quota.backing == plan::LayerBacking::Memory) {
    return open_file_at(dir, kInMemory, O_WRONLY | O_CREAT | O_EXCL, 0600).map([](auto&&) {});
  }
  if (request.quota.backing != plan::LayerBacking::Image) return {};
  return make_image(fmt::format("{}/{}/{}", root.path, draft, kImage),
                    {.bytes = request.quota.bytes,
                     .inodes = request.quota.inodes,
                     .uid = facts.upper_uid,
                     .gid = facts.upper_gid,
                     .upper_mode = mode});
}

Result<plan::LayerBacking> read_backing(BorrowedFd dir) {
  TRY(const Node image, look(dir, kImage));
  if (image.exists()) return plan::LayerBacking::Image;
  TRY(const Node memory, look(dir, kInMemory));
  return memory.exists() ? plan::LayerBacking::Memory : plan::LayerBacking::Directory;
}

// What a layer stands on, and what is put into it, is read from its directory.
Result<void> check_stack(const LayerRoot& root, const LayerRequest& request) {
  if (request.fill && request.quota.backing != plan::LayerBacking::Directory) {
    return fail(Code::Unsupported, "a layer with a budget cannot begin with something in it");
  }
  for (const std::string& id : request.below) {
    TRY(const UniqueFd dir, open_file_at(root.dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    TRY(const plan::LayerBacking backing, read_backing(dir));
    if (backing == plan::LayerBacking::Directory) continue;
    return fail(Code::Unsupported, "layer {} has a budget, and nothing can stand on it: it is a {}",
                id, to_text(backing));
  }
  return {};
}

Result<Layer> open_by_id(const LayerRoot& root, const std::string& id) {
  TRY(UniqueFd dir, open_file_at(root.dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(const std::string facts_text, read_file_at(dir, "layer.json"));
  TRY(LayerFacts facts, decode_facts(facts_text));
  TRY(const std::string base_text, read_file_at(dir, "base.json", kLargestRecord));
  TRY(Base base, decode_base(base_text));
  TRY(const plan::LayerBacking backing, read_backing(dir));
  return Layer(std::move(dir), fmt::format("{}/{}", root.path, id), std::move(facts),
               std::move(base), backing);
}

// Tells ext4 that what lies in this directory has nothing to do with one another (chattr +T): each
// layer gets a place of its own on the disk. Else all of them come to the same few places, and
// making a file there means looking past every file that was removed a moment ago: an ext4 without
// a journal uses none of these again for a minute. Other filesystems need no such word and do not
// know it.
void spread_layers(BorrowedFd dir) {
  int flags = 0;
  if (::ioctl(dir.get(), FS_IOC_GETFLAGS, &flags) != 0 || (flags & FS_TOPDIR_FL) != 0) return;
  flags |= FS_TOPDIR_FL;
  (void)::ioctl(dir.get(), FS_IOC_SETFLAGS, &flags);  // without it they are slower, that is all
}

}  // namespace

Result<LayerRoot> open_layer_root(const std::string& path) {
  TRY(UniqueFd dir, open_private_directory(path));
  spread_layers(dir);
  return LayerRoot{.path = path, .dir = std::move(dir)};
}

Result<Layer> make_layer(const LayerRoot& root, const LayerRequest& request) {
  TRY_VOID(check_stack(root, request));
  TRY(const UniqueFd original, open_file(request.origin, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  TRY(const Node node, look(original));
  LayerFacts facts;
  facts.origin = request.origin;
  facts.prefix = request.prefix;
  facts.created = std::max(now(), request.after + kIdStep);
  facts.uid = ::geteuid();
  facts.upper_uid = request.upper_uid.value_or(::geteuid());
  facts.upper_gid = request.upper_gid.value_or(::getegid());
  facts.below = request.below;
  TRY(facts.id, make_id(facts.created));
  TRY(Base base, make_base(original));
  if (request.base) base = *request.base;

  const std::string draft = ".new-" + facts.id;
  if (::mkdirat(root.dir.get(), draft.c_str(), 0700) != 0) {
    return fail_os(errno, "make a layer in {}", root.path);
  }
  UniqueFd dir;
  const auto filled = [&]() -> Result<void> {
    const unsigned mode = node.mode & 01777U;
    TRY(dir, open_file_at(root.dir, draft, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    TRY_VOID(fill_layer(dir, facts, base, mode));
    TRY_VOID(make_backing(root, dir, draft, request, facts, mode));
    if (request.fill) {
      TRY(const UniqueFd upper,
          open_file_at(dir, "box/upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
      TRY_VOID(request.fill(upper));
    }
    return move_new(root.dir, draft, root.dir, facts.id);
  }();
  if (!filled) {
    (void)remove_tree(root.dir, draft);  // what is left is collected later
    return unexpected(filled.error());
  }
  std::string path = fmt::format("{}/{}", root.path, facts.id);
  return Layer(std::move(dir), std::move(path), std::move(facts), std::move(base),
               request.quota.backing);
}

Result<Layer> open_layer(const LayerRoot& root, std::string_view id) {
  if (!is_layer_id(id)) return fail(Code::Invalid, "not the id of a layer");
  auto layer = open_by_id(root, std::string(id));
  if (!layer && layer.error().os_errno == ENOENT) {
    return fail(Code::NotFound, "there is no layer {}", id);
  }
  return layer;
}

Result<void> Layer::leave_memory() {
  if (::unlinkat(dir_.get(), kInMemory, 0) != 0) return fail_os(errno, "leave memory");
  backing_ = plan::LayerBacking::Directory;
  memory_.reset();
  return {};
}

Result<UniqueFd> Layer::open_upper() const {
  if (memory_) return open_file_at(memory_, ".", O_RDONLY | O_DIRECTORY);
  if (backing_ == plan::LayerBacking::Memory) {
    return fail(Code::NotFound,
                "what was written into layer {} was in memory, and is gone with the process that "
                "held it",
                facts_.id);
  }
  if (backing_ == plan::LayerBacking::Image) {
    TRY(const UniqueFd image, launch::open_image(mount_path()));
    TRY(const UniqueFd mount, launch::mount_image(image));
    return open_file_at(mount, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  }
  return open_file_at(dir_, "box/upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<Uppers> Layer::open_uppers() const {
  std::vector<UniqueFd> trees;
  TRY(UniqueFd top, open_upper());
  trees.push_back(std::move(top));
  for (const std::string& id : facts_.below) {
    TRY(UniqueFd tree, open_frozen(id));
    trees.push_back(std::move(tree));
  }
  return Uppers(std::move(trees));
}

std::string Layer::frozen_path(const std::string& id) const {
  return fmt::format("{}/{}/box/upper", path_.substr(0, path_.rfind('/')), id);
}

Result<UniqueFd> Layer::open_frozen(const std::string& id) const {
  return open_file(frozen_path(id), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Result<UniqueFd> Layer::open_original() const {
  TRY(UniqueFd original, open_file(facts_.origin, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(const Node node, look(original));
  TRY_VOID(BaseDirectory::root(base_, node).map([](const BaseDirectory&) {}));
  return original;
}

Result<void> Layer::save_known(KnownNodes known) {
  base_.known = std::move(known);
  return write_record(dir_, "base.json", encode_base(base_), Durability::Synced);
}

Result<UniqueFd> Layer::hold() const {
  TRY(UniqueFd fd, open_file_at(dir_, "layer.json", O_RDONLY | O_NOFOLLOW));
  if (::flock(fd.get(), LOCK_SH | LOCK_NB) != 0) return fail_os(errno, "hold {}", facts_.id);
  return fd;
}

}  // namespace glovebox::workspace
