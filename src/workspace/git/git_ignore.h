// What git ignores by the .gitignore files of a workspace and its .git/info/exclude.
//
// Only for how a question is put: nothing passes the gate because git ignores it. The user's own
// list (core.excludesFile) is not read.
#pragma once

#include "workspace/tree/path_glob.h"

#include <functional>
#include <map>
#include <optional>

namespace glovebox::workspace {

class GitIgnores {
 public:
  using Read = std::function<Result<std::string>(const std::string& path)>;
  explicit GitIgnores(Read read) : read_(std::move(read)) {}

  // A path is ignored with the directory it is in.
  bool ignores(const std::string& path);

 private:
  struct Pattern {
    Glob glob;
    bool is_negated = false;
    bool is_for_directories = false;
  };
  using Patterns = std::vector<Pattern>;

  static Patterns parse(const std::string& text, const std::string& directory);
  const Patterns& patterns_of(const std::string& directory);
  enum class Kind : unsigned char { File, Directory };
  bool ignores_one(const std::string& path, Kind kind);

  Read read_;
  std::map<std::string, Patterns> patterns_;
};

}  // namespace glovebox::workspace
