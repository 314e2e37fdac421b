// The arguments of a tool, read strictly: a missing, unknown or misshapen one is refused by name.
#pragma once

#include "base/result.h"
#include "base/strict_json.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::mcp {

struct ReplArguments {
  std::string input;
  std::chrono::milliseconds timeout{60'000};
};
Result<ReplArguments> read_repl_arguments(const boost::json::object& object);

struct FilesArguments {
  enum class Action : std::uint8_t { Read, Write, List, Search };
  Action action = Action::Read;
  std::string path;
  std::string content;
  std::string pattern;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> limit;
};
Result<FilesArguments> read_files_arguments(const boost::json::object& object);

struct CommitArguments {
  std::vector<std::string> only;
  std::vector<std::string> reject;
  bool is_dry_run = false;
};
Result<CommitArguments> read_commit_arguments(const boost::json::object& object);

struct SessionArguments {
  enum class Action : std::uint8_t { List, Use, Close, Fork, Checkpoint, Checkpoints, Restore };
  Action action = Action::List;
  std::string name;
  std::string checkpoint;   // the name of a file: checkpoint, restore
  std::uint64_t count = 1;  // fork
  bool is_forced = false;   // fork
};
Result<SessionArguments> read_session_arguments(const boost::json::object& object);

Result<void> read_no_arguments(const boost::json::object& object);

}  // namespace glovebox::mcp
