// Things of the host, and of another box, that an attack would touch, made for one tier of attacks
// and looked at after each.
#pragma once

#include "attack/command.h"
#include "attack/net_canaries.h"
#include "base/result.h"
#include "base/unique_fd.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>
#include <sys/types.h>

namespace glovebox::app {

class Canaries {
 public:
  // `owner` is who the boxes run for.
  static Result<Canaries> make(Ids owner);

  Canaries(Canaries&& other) noexcept;
  Canaries& operator=(Canaries&&) = delete;
  Canaries(const Canaries&) = delete;
  Canaries& operator=(const Canaries&) = delete;
  ~Canaries();  // removes them

  // Words of a probe with their '@' places filled in: @secret (a file that no box may read), @book
  // (one that a box may only read), @work (a workspace), @socket, @abstract, @victim (a process),
  // @shm, @sysv, @queue; @port of a server on the host's loopback, @open of one that a wide policy
  // grants, @other of one that none does, @dns of the name server; @near (what another box calls
  // its things) and @nearkey; @empty (a policy with empty lists), @state.
  std::string word(std::string_view word) const;

  // What a successful attack would have in its output: of the host, and of another box.
  const std::string& secret() const { return secret_; }
  const std::string& near_secret() const { return near_secret_; }
  const std::string& directory() const { return directory_; }
  std::string work() const { return directory_ + "/work"; }
  std::string book() const { return directory_ + "/book"; }
  std::string state() const { return directory_ + "/state"; }
  // A terminal as standard input of an attack.
  BorrowedFd terminal() const { return terminal_; }

  NetCanaries& net() { return *net_; }
  const NetCanaries& net() const { return *net_; }

  // A program that must stay what it is.
  Result<void> watch(const std::string& path);
  // Another box, which keeps its secret in every place that boxes could meet in. `command` starts
  // one whose words end where those of a probe begin.
  Result<void> set_neighbour(Command command);
  void end_neighbour();

  // What is not as it was, as a clause; empty when all is well. Puts the workspace back.
  std::string touched();
  // Whether the workspace is what it was before a layer was put on it.
  bool is_work_untouched() const;

 private:
  Canaries() = default;
  Result<void> make_files(Ids owner);
  Result<void> make_sockets(Ids owner);
  Result<void> put_service() const;
  Result<void> make_shared();
  Result<void> make_victim(Ids owner);
  bool is_victim_hit() const;
  std::string touched_files() const;
  std::string touched_sockets() const;

  struct Watched {
    std::string path;
    struct stat facts{};
  };

  std::string directory_;
  std::string token_;  // in names
  std::string secret_, near_secret_;
  Ids owner_;
  int sysv_ = -1;
  pid_t victim_ = 0;
  UniqueFd named_, abstract_, abstract_datagram_;
  UniqueFd terminal_, terminal_master_;
  std::unique_ptr<NetCanaries> net_;
  std::optional<Background> neighbour_;
  std::vector<Watched> watched_;
};

}  // namespace glovebox::app
