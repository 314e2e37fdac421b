// The rules that every box starts from: what ordinary programs need, and nothing that changes the
// box, reaches out of it or opens a large piece of the kernel.
//
// Every system call that has a name gets its verdict by name, so that none is decided by oversight:
// allowed; allowed for some arguments; refused with EPERM because it is dangerous; or absent, that
// is ENOSYS, where programs have a fallback for kernels without it. The reasons stand beside the
// names in filter_rules.cpp.
#pragma once

#include "plan/filter.h"

namespace glovebox::plan {

// Numbers differ between architectures and names do not, so one table serves all of them.
FilterRules default_filter_rules(Architecture architecture = kNativeArchitecture);

}  // namespace glovebox::plan
