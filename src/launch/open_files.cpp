#include "launch/open_files.h"

#include <cerrno>

#include <sys/resource.h>

namespace glovebox::launch {

Result<void> raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return fail_os(errno, "read the limit on open files");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return fail_os(errno, "raise the limit on open files");
  return {};
}

}  // namespace glovebox::launch
