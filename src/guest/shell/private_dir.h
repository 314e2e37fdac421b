// The directory through which the agent hands pipes and code to shells.
//
// A shell that already runs cannot be given descriptors, but it can open paths: named pipes for a
// run's output and input, and a file with its code. They lie in a directory of the agent's own in
// the box's scratch space. Code in the box has the same identity and can see, remove or replace
// them; it then spoils its own session's next run and nothing else. Removing is not even spoiling:
// every use checks that the names still mean what was made, and makes them again if not.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace glovebox::guest {

// A named pipe with one or both ends open. Neither of them blocks; who opens the path gets one that
// does.
struct NamedPipe {
  std::string path;
  UniqueFd read;
  UniqueFd write;
  ino_t inode = 0;
  dev_t device = 0;
};

class PrivateDir {
 public:
  // In the first of `places` that can be written.
  static Result<PrivateDir> make(const std::vector<std::string>& places);

  PrivateDir(PrivateDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateDir& operator=(PrivateDir&&) = delete;
  // Only the names go; who has a pipe open keeps it.
  ~PrivateDir();

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view name) const;

  // A pipe that no other process has open, in place of any that has the name.
  Result<NamedPipe> make_pipe(std::string_view name);
  // Whether the path still leads to this pipe.
  static bool is_there(const NamedPipe& pipe);
  // Whether no process has the writing end open. What was in it is thrown away.
  static bool is_idle(const NamedPipe& pipe);
  // Opens the writing end if the path still leads to this pipe.
  static void open_writer(NamedPipe& pipe);
  Result<void> write_file(std::string_view name, std::string_view text);
  void remove(std::string_view name);

 private:
  explicit PrivateDir(std::string path) : path_(std::move(path)) {}
  Result<void> make_again();

  std::string path_;
};

}  // namespace glovebox::guest
