#include "guest/shell/private_dir.h"

#include "base/file.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kOwnerFile = 0600;

Result<UniqueFd> open_end(const std::string& path, int flags) {
  // Never blocks and never follows: the name may lead elsewhere by now.
  return open_file(path, flags | O_NONBLOCK | O_NOFOLLOW);
}

}  // namespace

Result<PrivateDir> PrivateDir::make(const std::vector<std::string>& places) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    return fail_os(errno, "get random bytes");
  }
  int os_errno = ENOENT;
  for (const std::string& place : places) {
    PrivateDir dir(fmt::format("{}/.glovebox-{:016x}", place, random));
    if (::mkdir(dir.path_.c_str(), kOwnerOnly) == 0) return dir;
    os_errno = errno;
    dir.path_.clear();
  }
  return fail_os(os_errno, "make the agent's directory in the box's scratch space");
}

PrivateDir::~PrivateDir() {
  if (path_.empty()) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path_.c_str()), ::closedir);
  while (const dirent* entry = dir ? ::readdir(dir.get()) : nullptr) {
    // What cannot be removed stays until the box's scratch space goes.
    (void)::unlinkat(::dirfd(dir.get()), entry->d_name, 0);
  }
  (void)::rmdir(path_.c_str());
}

std::string PrivateDir::path_of(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

Result<void> PrivateDir::make_again() {
  if (::mkdir(path_.c_str(), kOwnerOnly) != 0 && errno != EEXIST) {
    return fail_os(errno, "make {} again", path_);
  }
  return {};
}

Result<NamedPipe> PrivateDir::make_pipe(std::string_view name) {
  NamedPipe pipe;
  pipe.path = path_of(name);
  (void)::unlink(pipe.path.c_str());  // mkfifo tells when something is still there
  if (::mkfifo(pipe.path.c_str(), kOwnerFile) != 0) {
    if (errno != ENOENT) return fail_os(errno, "make the pipe {}", pipe.path);
    TRY_VOID(make_again());
    if (::mkfifo(pipe.path.c_str(), kOwnerFile) != 0) {
      return fail_os(errno, "make the pipe {}", pipe.path);
    }
  }
  TRY(pipe.read, open_end(pipe.path, O_RDONLY));
  TRY(pipe.write, open_end(pipe.path, O_WRONLY));
  struct stat status{};
  if (::fstat(pipe.read.get(), &status) != 0) return fail_os(errno, "look at {}", pipe.path);
  if (!S_ISFIFO(status.st_mode)) return fail(Code::Invalid, "{} is no pipe", pipe.path);
  pipe.inode = status.st_ino;
  pipe.device = status.st_dev;
  return pipe;
}

bool PrivateDir::is_there(const NamedPipe& pipe) {
  struct stat status{};
  return ::lstat(pipe.path.c_str(), &status) == 0 && status.st_ino == pipe.inode &&
         status.st_dev == pipe.device;
}

bool PrivateDir::is_idle(const NamedPipe& pipe) {
  std::array<char, 4096> away;
  ssize_t size = 1;
  // As much as a pipe holds; a process that goes on writing has it open.
  for (int i = 0; i < 16 && size > 0; ++i) size = ::read(pipe.read.get(), away.data(), away.size());
  if (size > 0) size = ::read(pipe.read.get(), away.data(), away.size());
  return size == 0;  // with a writer there it is EAGAIN
}

void PrivateDir::open_writer(NamedPipe& pipe) {
  auto end = open_end(pipe.path, O_WRONLY);
  struct stat status{};
  if (!end || ::fstat(end->get(), &status) != 0) return;
  if (status.st_ino == pipe.inode && status.st_dev == pipe.device) pipe.write = *std::move(end);
}

Result<void> PrivateDir::write_file(std::string_view name, std::string_view text) {
  const std::string path = path_of(name);
  // A pipe or a link in its place is no file of ours: without a reader a pipe is ENXIO, a link
  // ELOOP, and then the name is taken anew.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK;
  auto fd = open_file(path, kFlags, kOwnerFile);
  if (!fd) {
    if (fd.error().os_errno == ENOENT) {
      TRY_VOID(make_again());
    } else {
      (void)::unlink(path.c_str());  // O_EXCL tells when something is still there
    }
    fd = open_file(path, kFlags | O_EXCL, kOwnerFile);
  }
  if (!fd) return tl::unexpected(std::move(fd).error());
  return write_all(*fd, text);
}

void PrivateDir::remove(std::string_view name) {
  // Already gone is as good.
  (void)::unlink(path_of(name).c_str());
}

}  // namespace glovebox::guest
