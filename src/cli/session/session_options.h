// The words of `glovebox session`.
#pragma once

#include "cli/cli.h"
#include "cli/layer_options.h"
#include "cli/run_options.h"
#include "client/tls_link.h"

#include <cstdint>
#include <string>
#include <vector>

namespace glovebox::app {

struct SessionOptions {
  enum class Act : std::uint8_t {
    Start,
    List,
    Run,
    Shell,
    Put,
    Get,
    Ls,
    Diff,
    Commit,
    Undo,
    Report,
    Stop,
    Recycle,
    Fork,
    Checkpoint,
    Restore,
    Send,
    Receive
  };
  Act act = Act::List;
  RunOptions box;  // start: what the box may do
  std::string name;
  std::string idle;
  std::vector<std::string> labels;
  bool prove = false;
  std::string session = "last";
  std::string code;                  // run: -c CODE
  std::vector<std::string> command;  // run: the words after --
  std::vector<std::string> env;
  std::string timeout;
  std::string from;
  std::string to;
  std::uint64_t depth = 1;
  DiffOptions diff;
  CommitOptions commit;
  std::uint64_t count = 1;          // fork: how many
  std::vector<std::string> only;    // fork: terms that the children's authority is cut down to
  std::vector<std::string> limits;  // fork: NAME=AMOUNT for each child
  std::string from_session;         // diff: the session to compare with
  std::string key_file;             // of checkpoints
  std::string tenant;
  std::string listen;                // receive: over TLS, on this address
  TlsIdentity tls;                   // send, receive
  std::string most_bytes = "64GiB";  // receive: of one session
  std::vector<std::string> state;
  bool tree = false;   // list: forks below what they were forked from
  bool drop = false;   // recycle: the layers
  bool force = false;  // fork, checkpoint: although something runs
  bool json = false;
  bool all = false;
  bool keep = false;      // stop: what is done anyway
  bool discard = false;   // stop: changes without a commit
  std::string workspace;  // diff, commit, undo: which of its workspaces; empty: the first
};

void add_session_options(CLI::App& app, SessionOptions& options);

}  // namespace glovebox::app
