// A thread of the box's first process that does one slow thing for it meanwhile.
//
// It shares the memory, so also the errno, of the process that goes on: its work calls the kernel
// through sys::raw() alone. It has the rights that the process had when it began, so the process
// waits for its end (await_helper) before it gives up its own and starts untrusted code.
#pragma once

#include <cstdint>

namespace glovebox::launch {

struct Helper {
  alignas(16) char stack[16 * 1024];
  std::uint32_t thread_id = 0;  // the kernel clears it when the thread has ended
  bool running = false;
  int error = 0;  // why the work failed, if it did
};

// What a helper does. The argument is the Helper, or what it is the first part of. Ends the thread
// by returning.
using HelperWork = void (*)(void* helper);

// False with errno set when there is no thread.
bool start_helper(Helper& helper, HelperWork work) noexcept;

// Waits for its end. False with errno set when it was never started or its work failed.
bool await_helper(Helper& helper) noexcept;

}  // namespace glovebox::launch
