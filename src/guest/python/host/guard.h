// The guard: an audit hook of the interpreter (PEP 578) in C++, which decides by the authority of
// the cell that runs. Python code can neither remove nor reach it.
//
// Whose act it is matters for some events: a library may look at frames, compile what it made up,
// and load its own modules later; the cell's own code may not. Code counts as a library's when its
// file lies below a library root and everything else as the cell's. A library that calls what the
// cell's code handed to it does not lend that its standing: it imports by a statement of its own,
// and makes code where it names the function that does. That is a fence and no wall: Python has
// ways to make library code do another's work. What such standing gives is to load modules, look at
// frames and make code; files, programs and sockets do not depend on it.
//
// An event of a namespace that the guard watches and does not know is refused. Events of other
// namespaces (http.client, shutil, ...) are told by libraries on top of those that are watched.
#pragma once

#include "guest/python/host/cell.h"

#include <string>

namespace glovebox::pyhost {

// The first of the two descriptors of the channel: opening them by number is refused.
extern int channel_fd;
// Whether this process is a worker of cells, in which descriptors belong to all of them.
extern bool is_worker;

// Once per process, before the first cell. False with an exception set.
bool install_guard();

// Whether the code that runs at this moment is a library's.
bool is_library_code(const Cell& cell);

// Whether this module may be loaded now, at the wish of whoever runs: -1 with an exception if not.
int check_import(Cell& cell, const std::string& module);
// Modules that functions in C load when they are called. They hold no powers of their own.
bool is_helper(std::string_view module);

// Raises the cell's error for a refused act, tells of it, and returns -1.
int refuse(Cell& cell, PyObject* error, const std::string& capability, const std::string& action,
           Verdict verdict);

}  // namespace glovebox::pyhost
