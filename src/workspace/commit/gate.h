// The commit gate: decides which changes wait until the caller accepts them by name.
//
// The rules are data (gate_rules.h). Content is judged on the copy that will be put in place, not
// on the box's file, which could change between the look and the copy.
#pragma once

#include "workspace/commit/gate_rules.h"
#include "workspace/diff/change.h"

#include <functional>

namespace glovebox::workspace {

// One question: a change that is held, or several that belong together (gate_groups.h).
struct Held {
  std::string path{};
  std::string rule{};
  std::string why{};
  std::string rule_class{};
  std::string gathered_by{};         // the rule that makes one question of it and its like
  std::vector<std::string> paths{};  // of several: all of them; `path` is where they are

  friend bool operator==(const Held&, const Held&) = default;
};

// "held .git/hooks/pre-commit [git-hooks]: git runs it ...", safe for a terminal.
std::string to_text(const Held& held);

// Where the gate reads the content of a change from. Each gives the whole file or an error.
struct GateContents {
  std::function<Result<std::string>(const Change&)> before;
  std::function<Result<std::string>(const Change&)> after;
};

// Where git looks for hooks by the original's own configuration, beside .git/hooks.
struct HookPlaces {
  bool is_anywhere = false;           // the configuration makes no sense, or cannot be read
  std::vector<std::string> places{};  // below the workspace's root, which itself is "."
};
// `config` is the text of .git/config of the workspace at `origin`. What it includes is not read.
HookPlaces find_hook_places(const Result<std::string>& config, std::string_view origin);

// A directory of the workspace ("" is its root) that is also to be judged by another name.
struct Alias {
  std::string directory{};
  std::string name{};

  friend bool operator==(const Alias&, const Alias&) = default;
};

// What the gate needs to know of the workspace.
struct GateContext {
  // Absolute path of the workspace; links into it by absolute path are inside.
  std::string origin{};
  HookPlaces hooks{};
  std::vector<Alias> aliases{};  // gate_places.h
  // Whether a file will be there after the commit. Without it every file counts as there.
  std::function<bool(const std::string& path)> is_there{};
};

// The path itself and what it is called by way of the aliases.
std::vector<std::string> names_of(const std::string& path, const std::vector<Alias>& aliases);

// All rules that hold the change; empty when it may pass. Content that cannot be read is held. What
// a rule would leave out counts as held.
std::vector<Held> judge(const GateRules& rules, const Change& change, const GateContents& contents,
                        const GateContext& context);

// Whether a link at `path` may lead out of the workspace: an absolute target outside `origin`, more
// ".." than there are directories, or any ".." behind a name, since that name may be a link itself.
bool points_out(std::string_view path, std::string_view target, std::string_view origin);

}  // namespace glovebox::workspace
