// File jobs: the file API of a session, done inside the box by the box's own identity.
//
// A path is what the kernel makes of it in here. Relative ones start at the workspace, absolute
// ones at the box's root, links lead where they lead: there is no outside to guard. So the same
// path means the same file as it does to the code that runs in the box, overlay and all.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/protocol/protocol.h"

#include <cstdint>

namespace glovebox::guest {

// The descriptor that a job needs besides its request.
enum class JobData : std::uint8_t { None, Output, Input };
JobData data_of(JobKind kind);

// A quick job is a few system calls and is done in place; the others get a process of their own, so
// that the agent stays awake and they can be cancelled.
bool is_quick(const StartJob& job);

// Refuses what does not fit the kind: unknown flags, missing or malformed fields.
Result<void> check_job(const StartJob& job);

// Does the job. `data` is the descriptor of data_of(kind), or -1.
JobEnded run_file_job(const StartJob& job, BorrowedFd workspace, BorrowedFd data);

}  // namespace glovebox::guest
