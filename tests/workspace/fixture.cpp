#include "workspace/fixture.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

void must(bool is_fine, const std::string& what) {
  if (is_fine) return;
  std::fprintf(stderr, "%s: %s\n", what.c_str(), std::strerror(errno));
  std::_Exit(99);
}

void write_proc(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  must(fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()), path);
  ::close(fd);
}

void enter_namespaces(MarkPrefix prefix) {
  if (prefix == MarkPrefix::Trusted) {
    must(::unshare(CLONE_NEWNS) == 0, "unshare");
  } else {
    const uid_t uid = ::geteuid();
    const gid_t gid = ::getegid();
    must(::unshare(CLONE_NEWNS | CLONE_NEWUSER) == 0, "unshare");
    write_proc("/proc/self/setgroups", "deny");
    write_proc("/proc/self/uid_map", fmt::format("0 {} 1", uid));
    write_proc("/proc/self/gid_map", fmt::format("0 {} 1", gid));
  }
  must(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
}

std::string time_of(const fs::path& path) {
  struct stat facts{};
  ::lstat(path.c_str(), &facts);
  return fmt::format("{}.{:09}", facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

std::string describe(const fs::path& path) {
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) != 0) return "gone";
  const unsigned mode = facts.st_mode & 07777U;
  if (S_ISLNK(facts.st_mode)) return "link " + fs::read_symlink(path).string();
  if (S_ISDIR(facts.st_mode)) return fmt::format("dir {:04o}", mode);
  if (S_ISREG(facts.st_mode)) return fmt::format("file {:04o} {}", mode, read_text(path));
  return fmt::format("other {:o}", facts.st_mode);
}

}  // namespace

TempDir::TempDir(Ground ground) {
  std::string name =
      ground == Ground::Memory ? "/dev/shm/glovebox-ws-XXXXXX" : "/var/tmp/glovebox-ws-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TempDir::~TempDir() {
  const UniqueFd parent(::open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  (void)remove_tree(parent, path_.filename());  // what is left is only rubbish
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void set_user_xattr(const fs::path& path, const std::string& name, const std::string& value) {
  ASSERT_EQ(::lsetxattr(path.c_str(), name.c_str(), value.data(), value.size(), 0), 0)
      << path << " " << name << ": " << std::strerror(errno);
}

void make_whiteout(const fs::path& path) {
  ASSERT_EQ(::mknod(path.c_str(), S_IFCHR, makedev(0, 0)), 0) << std::strerror(errno);
}

Tree read_tree(const fs::path& root) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    tree[entry.path().lexically_relative(root).string()] = describe(entry.path());
  }
  return tree;
}

Tree read_tree_with_times(const fs::path& root) {
  Tree tree = read_tree(root);
  for (auto& [name, what] : tree) {
    if (!what.starts_with("dir")) what += " @" + time_of(root / name);
  }
  return tree;
}

// Stamps are between the coarse clock and the fine one, so it must have passed the fine one's
// present.
void wait_for_tick() {
  const auto read = [](clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::pair(time.tv_sec, time.tv_nsec);
  };
  auto present = read(CLOCK_REALTIME);
  present.second += 2000;  // the margin for stamps that are cut to a microsecond
  while (read(CLOCK_REALTIME_COARSE) <= present) ::usleep(500);
}

void WorkspaceTest::SetUp() {
  fs::create_directory(origin());
  root_ = open_layer_root(temp_.path("layers")).value();
}

void WorkspaceTest::begin(MarkPrefix prefix) {
  wait_for_tick();
  auto made = make_layer(*root_, {.origin = origin(), .prefix = prefix});
  ASSERT_TRUE(made) << made.error().message;
  layer_.emplace(*std::move(made));
}

void WorkspaceTest::freeze() {
  LayerRequest request{.origin = origin(), .prefix = layer_->facts().prefix};
  request.below = layer_->facts().below;
  request.below.insert(request.below.begin(), layer_->facts().id);
  request.base = layer_->base();
  auto made = make_layer(*root_, request);
  ASSERT_TRUE(made) << made.error().message;
  layer_.emplace(*std::move(made));
}

void WorkspaceTest::in_overlay(const std::function<void(const fs::path&)>& edit) {
  const fs::path point = temp_.path("merged");
  fs::create_directories(point);
  const MarkPrefix prefix = layer_->facts().prefix;
  std::string lowers;
  for (const std::string& id : layer_->facts().below) lowers += layer_->frozen_path(id) + ":";
  std::string options =
      fmt::format("lowerdir={}{},upperdir={},workdir={},index=off,metacopy=off", lowers,
                  origin().string(), layer_->upper_path(), layer_->work_path());
  options += prefix == MarkPrefix::User ? ",userxattr" : ",redirect_dir=nofollow";
  const pid_t child = ::fork();
  if (child == 0) {
    enter_namespaces(prefix);
    must(::mount("overlay", point.c_str(), "overlay", 0, options.c_str()) == 0, "mount overlay");
    edit(point);
    std::_Exit(testing::Test::HasFailure() ? 98 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0) << "the child in the overlay failed";
}

std::vector<Change> WorkspaceTest::changes() {
  const auto uppers = layer_->open_uppers();
  const auto original = layer_->open_original();
  auto found = diff(*layer_, *uppers, *original);
  EXPECT_TRUE(found) << found.error().message;
  return found.value_or(std::vector<Change>());
}

CommitResult WorkspaceTest::commit_all(const Selection& selection, const GateRules& rules) {
  const auto original = layer_->open_original();
  CommitOptions options;
  options.selection = selection;
  options.rules = rules;
  auto result = commit(*layer_, *original, options);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(CommitResult());
}

UndoResult WorkspaceTest::undo_last() {
  const auto original = layer_->open_original();
  auto result = undo(*layer_, *original);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(UndoResult());
}

std::vector<std::string> to_lines(const std::vector<Change>& changes) {
  std::vector<std::string> lines;
  lines.reserve(changes.size());
  for (const Change& change : changes) lines.push_back(to_text(change));
  return lines;
}

}  // namespace glovebox::workspace::test
