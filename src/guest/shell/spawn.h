// Starts a program inside the box, without a copy of the agent's memory.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::guest {

struct SpawnRequest {
  std::vector<std::string> files;  // absolute; the first that can be executed is
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string cwd;  // empty: the agent's own
  // What becomes descriptors 0, 1 and 2. All are above 2.
  std::array<int, 3> stdio = {-1, -1, -1};
  // One more descriptor, and the number it gets. Not given: -1.
  int extra_fd = -1;
  int extra_number = -1;
  enum class Terminal { None, Controlling } terminal = Terminal::None;
  // Adopting: what the program's descendants orphan becomes its child and not the agent's, so that
  // its tree stays whole while it lives. The setting survives execve (prctl(2)).
  enum class Orphans { ToAgent, Adopted } orphans = Orphans::ToAgent;
};

// The program leads a session of its own. An error means that nothing runs: the errno of the chdir
// or of the execve that failed.
Result<pid_t> spawn(const SpawnRequest& request);

// The files that `name` may mean for execvp with this PATH; itself when it has a slash.
std::vector<std::string> candidates_for(std::string_view name, std::string_view path);

// The value of `name` in a list of NAME=value; empty when it is not there.
std::string_view value_in(const std::vector<std::string>& env, std::string_view name);

// `base` with the entries of `changes` in place of those of the same name.
std::vector<std::string> merge_env(const std::vector<std::string>& base,
                                   const std::vector<std::string>& changes);

}  // namespace glovebox::guest
