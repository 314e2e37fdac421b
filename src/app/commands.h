// The subcommands. Each returns the exit code of the process.
#pragma once

#include "app/run_options.h"

namespace glovebox::app {

inline constexpr int kRefusedExit = 125;

int run_command(const RunOptions& options);
int explain_command(const RunOptions& options);

struct DoctorOptions {
  bool json = false;
};
// 0 when a plain `glovebox run -- true` works on this host for this caller, 1 when it does not.
int doctor_command(const DoctorOptions& options);

// "glovebox: <sentence>" on standard error; returns kRefusedExit.
int refuse(const Error& error);

}  // namespace glovebox::app
