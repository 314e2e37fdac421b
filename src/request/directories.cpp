#include "request/directories.h"

#include "base/file.h"
#include "host/path_facts.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::session {

Result<void> make_directories_for(const std::string& path) {
  TRY(UniqueFd dir, open_file("/", O_PATH | O_DIRECTORY));
  for (const std::string& name : host::components(path)) {
    if (::mkdirat(dir.get(), name.c_str(), 0755) != 0 && errno != EEXIST) {
      return fail_os(errno, "make {}", path);
    }
    TRY(dir, open_file_at(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  }
  return {};
}

}  // namespace glovebox::session
