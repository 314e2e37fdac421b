// From changes to steps: what a commit will do, in an order in which it can be done. Pure.
//
// Removals come first, then what is added or replaced, from the root downwards, then the modes of
// directories, from the leaves upwards (a directory that its owner may not write must be filled
// before it gets that mode). A directory all of whose contents are deleted goes in one move. A
// directory that was added is taken along with anything selected below it.
#pragma once

#include "workspace/diff/change.h"
#include "workspace/layer/journal.h"
#include "workspace/tree/path_glob.h"

namespace glovebox::workspace {

// Which changes a commit takes, in the words of a command line.
struct Selection {
  std::vector<std::string> only{};            // globs; empty means everything
  std::vector<std::string> reject{};          // globs; wins over `only`
  std::vector<std::string> accept_rules{};    // rules of the gate whose changes may pass
  std::vector<std::string> accept_paths{};    // globs of paths that may pass the gate
  std::vector<std::string> accept_classes{};  // classes of rules whose changes may pass
};

class Chooser {
 public:
  static Result<Chooser> parse(const Selection& selection);

  bool takes(std::string_view path) const;
  // A pattern that is the name of a change, letter by letter, means that change alone: a box that
  // leaves a held link named "**" must not turn the natural answer into "accept everything".
  bool accepts(std::string_view path, std::string_view rule, std::string_view rule_class) const;
  // Which names there are. plan_commit() tells it.
  void learn_names(const std::vector<Change>& changes);

 private:
  std::vector<Glob> only_{};
  std::vector<Glob> reject_{};
  std::vector<std::string> accept_rules_{};
  std::vector<std::string> accept_classes_{};
  std::vector<Glob> accept_paths_{};
  std::vector<std::string> accept_names_{};  // those of them that are the name of a change
};

// One step to be, with the change it comes from.
struct PlannedStep {
  Step step{};
  std::size_t change = 0;  // index into the changes
};

struct CommitPlan {
  std::vector<std::size_t> taken{};  // indexes of changes, in tree order
  std::vector<PlannedStep> steps{};
};

// `changes` are in tree order, as compare() gives them. The chooser learns their names.
CommitPlan plan_commit(const std::vector<Change>& changes, Chooser& chooser);

}  // namespace glovebox::workspace
