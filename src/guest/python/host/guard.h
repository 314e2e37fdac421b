// The guard: an audit hook of the interpreter (PEP 578) in C++, which decides by the authority of
// the cell that runs. Python code can neither remove nor reach it.
//
// Whose act it is matters for some events: a library may look at frames, compile what it made up,
// and load its own modules later; the cell's own code may not. Code counts as a library's when its
// file lies below a library root and everything else as the cell's. File names of code cannot be
// forged: making code objects by hand and unmarshalling them are events too.
//
// An event of a namespace that the guard watches and does not know is refused. Events of other
// namespaces (http.client, shutil, ...) are told by libraries on top of those that are watched.
#pragma once

#include "guest/python/host/cell.h"

#include <string>

namespace glovebox::pyhost {

// The first of the two descriptors of the channel: opening them by number is refused.
extern int channel_fd;

// Once per process, before the first cell. False with an exception set.
bool install_guard();

// Whether the code that runs at this moment is a library's. Importing through the functions of the
// import machinery is importing by whoever called them.
enum class Look : std::uint8_t { Nearest, PastImportMachinery };
bool is_library_code(const Cell& cell, Look look = Look::Nearest);

// Raises the cell's error for a refused act, tells of it, and returns -1.
int refuse(Cell& cell, PyObject* error, const std::string& capability, const std::string& action,
           Verdict verdict);

}  // namespace glovebox::pyhost
