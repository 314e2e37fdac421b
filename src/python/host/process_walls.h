// Walls that the host puts up around its own process, with the kernel's help, before the first line
// of a cell's code. Each only takes away, and none can be taken down from inside.
#pragma once

#include <cstdint>
#include <optional>

namespace glovebox::pyhost {

// No process is started and no program executed: fork, vfork, clone without CLONE_THREAD, clone3,
// execve and execveat fail. Also in threads that are there already. errno, or 0.
int forbid_processes();

// At the end of the CPU time the process ends at once, even inside one long call. The timer is
// exact; the kernel's own limit, in whole seconds, holds should the timer be got rid of. The time
// counts from now. errno, or 0.
int limit_cpu(std::uint64_t ms);

// Data of this process, so that running out is a MemoryError. errno, or 0.
int limit_memory(std::uint64_t bytes);

// The calling thread, and those that it starts, cannot read, write, close or copy these two
// descriptors. Other threads can.
int forbid_descriptors(int first);

// The calling thread, and those that it starts, have descriptors, a current directory and a umask
// of their own from here on. Of the descriptors the first three stay, and with
// StandardStreams::Nowhere what is written to them is lost. errno, or 0.
enum class StandardStreams : std::uint8_t { Shared, Nowhere };
int separate_thread(StandardStreams streams);

// No process opens this process's memory, or these two descriptors, by their names in /proc.
int hide_from_proc(int first);

}  // namespace glovebox::pyhost
