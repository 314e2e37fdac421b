// How many descriptors a process of ours may have open.
#pragma once

#include "base/result.h"

namespace glovebox::launch {

// Raises this process's soft limit on open files to its hard one. Both the service and its launcher
// hold descriptors of every box, and the usual soft limit of 1,024 is there for programs that use
// select(2). No box inherits it: every plan sets both limits for its box.
Result<void> raise_open_files();

}  // namespace glovebox::launch
