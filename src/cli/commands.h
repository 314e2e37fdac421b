// The subcommands. Each returns the exit code of the process.
#pragma once

#include "cli/layer_options.h"
#include "cli/policy_options.h"
#include "cli/run_options.h"

namespace glovebox::app {

inline constexpr int kRefusedExit = 125;

int run_command(const RunOptions& options);
// refuse() for a run that does not begin: it is the last one of its workspaces.
int refuse_run(const RunOptions& options, const Error& why);
int explain_command(const RunOptions& options);

struct DoctorOptions {
  bool json = false;
};
// 0 when a plain `glovebox run -- true` works on this host for this caller, 1 when it does not.
int doctor_command(const DoctorOptions& options);

// 1 when changes are held or conflict.
int diff_command(const DiffOptions& options);
int commit_command(const CommitOptions& options);
int undo_command(const UndoOptions& options);
int layers_command(const LayersOptions& options);

// 0: fine, allowed, no difference; 1: problems, not allowed, a difference.
int policy_command(const PolicyOptions& options);

// "glovebox: <sentence>" on standard error; returns kRefusedExit.
int refuse(const Error& error);

}  // namespace glovebox::app
