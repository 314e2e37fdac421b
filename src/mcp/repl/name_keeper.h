// A process that gives held names free when the server was killed.
//
// A server that ends removes its placeholders (placeholders.h). One that is killed cannot. So a
// second process knows their paths. It is no child of the server, holds nothing of it but one end
// of a socket, and does nothing until that is closed: then it waits until the boxes are gone, which
// die with the server but not at the same moment, and removes what is still there. Removed earlier,
// a name could be taken by a box that is about to die.
//
// Where that process is killed too, the directories stay, and the next server that needs one takes
// it over.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <set>
#include <string>
#include <vector>

namespace glovebox::mcp {

class NameKeeper {
 public:
  // `command` starts the process, with a socket on its standard input: it must call keep_names().
  explicit NameKeeper(std::vector<std::string> command) : command_(std::move(command)) {}

  // To be called before the name is taken. The process is started by the first of them.
  Result<void> add_name(const std::string& path);
  // To be called when a box was made and before anything runs in it: the names are needed as long
  // as one of this process's boxes lives.
  Result<void> add_boxes();

 private:
  Result<void> start();
  Result<void> send(const std::string& path, BorrowedFd process);

  std::vector<std::string> command_;
  UniqueFd socket_;
  std::set<std::string> names_;
};

// The process itself: detaches, and returns its exit code when all is done.
int keep_names(BorrowedFd socket);

}  // namespace glovebox::mcp
