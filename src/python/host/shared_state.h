// What a process has once, kept from the cells of a worker: functions that reach beyond the cell
// and that no event is told of, and modules that have no other purpose.
//
// Descriptors, the current directory and the umask are each thread's own (process_walls.h);
// everything that the kernel or the C library keeps for the process as a whole is here: its end,
// its signals and timers, its environment, locale and time zone, and the interpreters in it.
#pragma once

#include "python/host/cell.h"

#include <string_view>

namespace glovebox::pyhost {

// Takes the functions out of the modules of the interpreter that is current, before it has a cell.
// False with an exception set.
bool take_out_shared_functions();

// For a cell of a worker: puts functions into the place of those that libraries ask for by name.
// False with an exception set.
bool replace_shared_functions();

// Whether no cell of a worker gets this module, with whatever grant.
bool is_kept_from_cells(std::string_view module);

// Built-in modules of which an interpreter has one: another copy would have what was taken out.
bool is_made_once(std::string_view module);

// Puts a function of ours into a module, and gives what was there. The collector, which tells of
// every object it knows, does not know that one any more.
Ref replace_function(const char* module, PyMethodDef* method);

}  // namespace glovebox::pyhost
