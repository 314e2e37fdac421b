// Cells in one process: each has an interpreter of its own and one thread, with descriptors, a
// current directory and a umask of its own.
//
// From CPython 3.12 on interpreters of one process share no object that can be changed, and a
// worker holds many cells. Below, they share the built-in types, and with those each other's
// objects: a worker holds one cell in all its life, and what the cell leaves behind ends with it.
//
// A cell is a place to execute, not a wall against native code: all cells of a worker share one
// address space, and a cell whose authority lets it call native code can reach the others. Cells
// are put into one worker only when they have the same owner and the very same authority.
#pragma once

#include "python/host/cell.h"

#include <string>

namespace glovebox::pyhost {

struct CellSettings {
  std::string own;                   // the host's directory
  std::string environment;           // of a virtual environment
  std::vector<std::string> modules;  // loaded ahead
};

// How many cells a worker of this interpreter holds at a time; one: in all its life.
std::uint32_t most_cells();

// Serves cells until the supervisor is gone. The main thread, with the GIL.
[[noreturn]] void run_cells(Channel& channel, CellSettings settings);

// Prepares the interpreter that is current for the cell that will have it: where libraries are,
// what is standard, what is loaded ahead. False with an exception set.
bool prepare_interpreter(Grants& grants, const CellSettings& settings);

// Memory of cells (memory.cpp): what the interpreter allocates on a cell's thread is counted, and
// beyond the cell's limit there is none. Before the first cell.
void count_memory();
// The account of this thread's allocations; nullptr: none.
struct MemoryAccount {
  std::atomic<std::uint64_t> used = 0;
  std::uint64_t most = UINT64_MAX;
};
void use_account(MemoryAccount* account);

}  // namespace glovebox::pyhost
