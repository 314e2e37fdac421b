// Sessions as files, for the commands that write, read and carry them.
#pragma once

#include "checkpoint/key.h"
#include "cli/session/session_options.h"
#include "client/http_client.h"

#include <string>

namespace glovebox::app {

// --key-file, else $GLOVEBOX_CHECKPOINT_KEY, else the file that $GLOVEBOX_CHECKPOINT_KEY_FILE
// names.
Result<checkpoint::Key> checkpoint_key(const SessionOptions& options);
// The file that it is in; empty when it is in none.
std::string key_file_of(const SessionOptions& options);

struct CheckpointReply {
  std::string tag;    // tells the file from all others
  std::string used;   // changes whenever the session is used
  std::string state;  // what it holds, as JSON
};
// Has the service write the session out, into `sink`.
Result<CheckpointReply> fetch_checkpoint(HttpClient& service, const SessionOptions& options,
                                         const std::string& id, const checkpoint::Key& key,
                                         const HttpClient::Sink& sink);

struct RestoreReply {
  std::string session;
  std::string tag;
};
Result<RestoreReply> push_checkpoint(HttpClient& service, const SessionOptions& options,
                                     const checkpoint::Key& key, BorrowedFd file);
// A file, or with "-" all of standard input.
Result<UniqueFd> open_checkpoint(const std::string& path);

}  // namespace glovebox::app
