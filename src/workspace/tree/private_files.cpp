#include "workspace/tree/private_files.h"

#include "base/file.h"
#include "workspace/tree/tree_fs.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::workspace {
namespace {

Result<void> make_parents(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string parent = path.substr(0, at);
    if (::mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) {
      return fail_os(errno, "make {}", parent);
    }
  }
  return {};
}

}  // namespace

Result<void> write_record(BorrowedFd dir, const std::string& name, std::string_view text,
                          Durability durability) {
  const std::string draft = name + ".draft";
  TRY(const UniqueFd fd, open_file_at(dir, draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
  TRY_VOID(write_all(fd, text));
  const bool is_synced = durability == Durability::Synced;
  if (is_synced && ::fdatasync(fd.get()) != 0) return fail_os(errno, "sync {}", name);
  if (::renameat(dir.get(), draft.c_str(), dir.get(), name.c_str()) != 0) {
    return fail_os(errno, "put {} in its place", name);
  }
  if (is_synced && ::fsync(dir.get()) != 0) return fail_os(errno, "sync the directory of {}", name);
  return {};
}

Result<UniqueFd> open_private_directory(const std::string& path) {
  if (!path.starts_with('/')) return fail(Code::Invalid, "{}: not an absolute path", path);
  TRY_VOID(make_parents(path));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_os(errno, "make {}", path);
  TRY(UniqueFd dir, open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(const Node node, look(dir));
  if (node.uid != ::geteuid() || (node.mode & 077U) != 0) {
    return fail(Code::Denied, "{}: must belong to uid {} and have mode 0700", path, ::geteuid());
  }
  return dir;
}

}  // namespace glovebox::workspace
