// Which file a request means, and whether it may be written.
//
// Files are read and written inside the box, by its own agent, so nothing here guards the host.
// What is checked is what the API promises: paths lie in a workspace or a bind of the session, ".."
// leads nowhere else, and what was handed in for reading is not written.
#pragma once

#include "http/message.h"
#include "session/store/session_info.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::serve {

enum class FileUse : std::uint8_t { Read, Write };

// One directory of the box that the API serves.
struct FileRoot {
  std::string path;  // as clients may call it
  bool writable = false;
  std::string place;  // where it is in the box
};

struct FilePath {
  std::string path;  // absolute in the box, without ".." and "."
  std::size_t root = 0;
};

class FileRoots {
 public:
  explicit FileRoots(const session::SessionInfo& info);

  // 400 for an empty path, one with a NUL byte, or one that is outside of everything; 403 for
  // writing what is read-only. A relative path starts in the first workspace.
  Result<FilePath, ApiError> find(std::string_view path, FileUse use) const;
  // The path below its root, when that is the first workspace; else as it is.
  std::string relative(std::string_view path) const;

 private:
  std::vector<FileRoot> roots_;
};

// "a/./b/../c" to "/a/c"; nothing when it climbs above the root.
std::optional<std::string> normal_path(std::string_view absolute);

// Modes are numbers whose decimal digits are the octal ones: 644 is rw-r--r--.
std::optional<std::uint32_t> mode_from_digits(std::int64_t digits);
std::int64_t mode_to_digits(std::uint32_t mode);

}  // namespace glovebox::serve
