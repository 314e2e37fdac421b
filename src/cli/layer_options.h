// The words of `glovebox diff`, `commit`, `undo` and `layers`.
#pragma once

#include "cli/cli.h"

#include <cstdint>
#include <string>
#include <vector>

namespace glovebox::app {

struct DiffOptions {
  std::string layer = "last";
  bool stat = false;
  bool json = false;
  bool tar = false;
};
void add_diff_options(CLI::App& app, DiffOptions& options);

struct CommitOptions {
  std::string layer = "last";
  std::vector<std::string> only;
  std::vector<std::string> reject;
  std::vector<std::string> accept;
  std::vector<std::string> accept_rules;
  std::vector<std::string> accept_classes;
  std::string gate;
  bool dry_run = false;
  bool json = false;
};
void add_commit_options(CLI::App& app, CommitOptions& options);

struct UndoOptions {
  std::string layer;  // empty: the one that was committed last
};
void add_undo_options(CLI::App& app, UndoOptions& options);

struct LayersOptions {
  std::vector<std::string> remove;
  bool json = false;
};
void add_layers_options(CLI::App& app, LayersOptions& options);

}  // namespace glovebox::app
