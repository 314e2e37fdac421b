// Things of the host that an attack would touch, made for one tier of attacks and looked at after
// each.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

#include <string>
#include <string_view>

#include <sys/types.h>

namespace glovebox::app {

struct Ids {
  uid_t uid = 0;
  gid_t gid = 0;
};

class Canaries {
 public:
  // `owner` is who the boxes run for.
  static Result<Canaries> make(Ids owner);

  Canaries(Canaries&& other) noexcept;
  Canaries& operator=(Canaries&&) = delete;
  Canaries(const Canaries&) = delete;
  Canaries& operator=(const Canaries&) = delete;
  ~Canaries();  // removes them

  // The word of a probe with its '@' places filled in: @secret (a file that no box may read), @book
  // (one that a box may only read), @work (a workspace), @socket, @abstract, @port, @victim (a
  // process), @shm, @sysv, @queue.
  std::string word(std::string_view word) const;

  // What a successful attack would have in its output.
  const std::string& token() const { return token_; }
  const std::string& directory() const { return directory_; }
  std::string work() const { return directory_ + "/work"; }
  std::string book() const { return directory_ + "/book"; }
  std::string state() const { return directory_ + "/state"; }
  // A terminal as standard input of an attack.
  BorrowedFd terminal() const { return terminal_; }

  // What is not as it was, as a clause; empty when all is well. Puts the workspace back.
  std::string touched();

 private:
  Canaries() = default;
  Result<void> make_files(Ids owner);
  Result<void> make_sockets(Ids owner);
  Result<void> make_shared();
  Result<void> make_victim(Ids owner);
  std::string touched_files() const;
  std::string touched_sockets() const;

  std::string directory_;
  std::string token_;
  Ids owner_;
  int port_ = 0;
  int sysv_ = -1;
  pid_t victim_ = 0;
  UniqueFd stream_, datagram_, named_, abstract_, abstract_datagram_;
  UniqueFd terminal_, terminal_master_;
};

}  // namespace glovebox::app
