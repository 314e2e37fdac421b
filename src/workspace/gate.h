// The commit gate: decides which changes wait for somebody to accept them by name.
//
// The rules are data (gate_rules.h). Content is judged on the copy that will be put in place, not
// on the box's file, which could change between the look and the copy.
#pragma once

#include "workspace/change.h"
#include "workspace/gate_rules.h"

#include <functional>

namespace glovebox::workspace {

struct Held {
  std::string path{};
  std::string rule{};
  std::string why{};

  friend bool operator==(const Held&, const Held&) = default;
};

// "held .git/hooks/pre-commit [git-hooks]: git runs it ...", safe for a terminal.
std::string to_text(const Held& held);

// Where the gate reads the content of a change from. Each gives the whole file or an error.
// `before` is also asked for .git/config, which need not be a change: it may name a directory of
// hooks. It reads the original, by the path alone.
struct GateContents {
  std::function<Result<std::string>(const Change&)> before;
  std::function<Result<std::string>(const Change&)> after;
};

// What the gate needs to know of the workspace.
struct GateContext {
  std::string
      origin{};  // absolute path of the workspace; links into it by absolute path are inside
};

// All rules that hold the change; empty when it may pass. Content that cannot be read is held.
std::vector<Held> judge(const GateRules& rules, const Change& change, const GateContents& contents,
                        const GateContext& context);

// Whether a link at `path` may lead out of the workspace: an absolute target outside `origin`, more
// ".." than there are directories, or any ".." behind a name, since that name may be a link itself.
bool points_out(std::string_view path, std::string_view target, std::string_view origin);

}  // namespace glovebox::workspace
