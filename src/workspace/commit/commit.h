// Takes a box's changes over into the original, all of those selected or none.
//
//   TRY(Layer layer, open_layer(root, "last"));
//   TRY(const UniqueFd original, layer.open_original());
//   TRY(const CommitResult result, commit(layer, original, options));
//
// A commit is three-way: a path that the original's owner changed as well is a conflict and is not
// overwritten (base.h has the argument). A path that could do harm later is held (gate.h). One
// conflict or held path, and nothing is taken over: the caller leaves the path out with `only` or
// `reject`, or accepts what is held by name, and tries again. A crash at any moment ends, after
// recover(), in everything or nothing (journal.h). undo() takes the last commit back.
#pragma once

#include "workspace/commit/commit_plan.h"
#include "workspace/commit/gate.h"
#include "workspace/commit/transaction.h"
#include "workspace/diff/change.h"
#include "workspace/layer/layer.h"

namespace glovebox::workspace {

enum class Act : std::uint8_t { Apply, DryRun };

struct CommitOptions {
  Selection selection{};
  Act act = Act::Apply;
  std::optional<GateRules> rules{};  // nothing: the ones that are part of the program
  Observer observer{};               // for tests; may be empty
};

struct Conflict {
  std::string path{};
  std::string why{};

  friend bool operator==(const Conflict&, const Conflict&) = default;
};

// "conflict src/a.c: the original changed since the session began", safe for a terminal.
std::string to_text(const Conflict& conflict);

// What stays behind, because the host makes it again by itself.
struct LeftOut {
  std::string rule{};
  std::string why{};
  std::vector<std::string> paths{};

  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

// "left out a/__pycache__/x.pyc and 12 more [python-bytecode]: ...", safe for a terminal.
std::string to_text(const LeftOut& left_out);

struct CommitResult {
  std::size_t number = 0;             // of the commit; 0 when nothing was done
  std::vector<Change> applied{};      // what was taken over; of a dry run, what would be
  std::vector<Held> held{};           // not empty: nothing was taken over
  std::vector<Conflict> conflicts{};  // not empty: nothing was taken over
  std::vector<LeftOut> left_out{};  // what the layer keeps, whether anything was taken over or not

  bool is_refused() const { return !held.empty() || !conflicts.empty(); }
};

// The rule named in Held for what can never be accepted: forged marks, unreadable or too deep.
inline constexpr const char* kRefusedRule = "refused";

// First ends interrupted commits of the layer.
Result<CommitResult> commit(Layer& layer, BorrowedFd original, const CommitOptions& options);

struct UndoResult {
  std::size_t number = 0;               // of the commit that was taken back
  std::vector<std::string> restored{};  // paths
  std::vector<Conflict> conflicts{};    // not empty: nothing was done
};

// Takes back the newest commit of the layer that was not taken back: content, mode, time and names
// are as before it. A path that was changed after the commit is a conflict. Code::NotFound when
// there is no such commit. An undo is a commit itself: journaled, and whole or nothing.
Result<UndoResult> undo(Layer& layer, BorrowedFd original, const Observer& observer = {});

}  // namespace glovebox::workspace
