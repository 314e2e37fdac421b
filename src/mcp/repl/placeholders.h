// Names that a box must not create, held by an empty directory on the host.
//
// The kernel can keep a box from changing what is there, and not from creating a name in a
// directory that it may write. So a missing name is taken: an empty directory is made there, the
// box gets it read-only, and it is removed when the last box that relies on it has ended and
// nothing was put in.
//
// Several servers may hold the same name. Each keeps a shared lock (flock(2)) on the directory and
// removes it only when it can have the lock alone; so none takes away what another's box relies
// on. When a server is killed another process removes them (name_keeper.h); when that is killed
// too, an empty directory stays, which git and the others take for nothing, and the next server
// that needs it takes it over and removes it in the end. A placeholder is known by its mode
// (01555): a directory of another maker is never removed.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <string>
#include <vector>

namespace glovebox::mcp {

// A directory with the mark in which there is nothing. What is in one is the user's, and a rule
// that denies it counts.
bool is_placeholder(const std::string& path);
// Removes one that is empty and that no server holds any more.
void remove_placeholder(const std::string& path);

class Placeholders {
 public:
  // Makes what is missing, and takes part in what others hold. `names` are absolute, and the
  // directory above each one exists.
  static Result<Placeholders> make(const std::vector<std::string>& names);

  Placeholders() = default;
  Placeholders(Placeholders&&) = default;
  Placeholders& operator=(Placeholders&&) = default;
  ~Placeholders() { release(); }

  // To be called when the box is gone. What cannot be removed stays: it is in use.
  void release();

 private:
  struct Held {
    UniqueFd parent;
    UniqueFd directory;
    std::string name;
  };
  std::vector<Held> held_;
};

}  // namespace glovebox::mcp
