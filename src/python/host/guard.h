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
//
// Nothing switches the guard off, itself included: what is tried while it decides (by a finalizer
// that the interpreter runs in between, say) is decided like everything else. What it reads off an
// event it takes from objects of the interpreter's own types and never asks an object of the cell's
// for a text, a number or a comparison; sys.audit() can hand in any object there is. A cell that
// has ended may do nothing, and what is left of it still runs while its interpreter is taken down.
#pragma once

#include "python/host/cell.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace glovebox::pyhost {

// The first of the two descriptors of the channel: opening them by number is refused.
extern int channel_fd;
// Whether this process is a worker of cells, in which descriptors belong to all of them.
extern bool is_worker;

// Once per process, before the first cell. False, with an exception set or without.
bool install_guard();

enum class Use : std::uint8_t { Read, Write };
// What opening with these flags is.
Use use_of(long flags);
// Whether this path may be used, which begins at a directory when it is relative: -1 with an
// exception if not.
int check_path(Cell& cell, const char* act, PyObject* path, Use use, int dir_fd);

// Whether the code that runs at this moment is a library's.
bool is_library_code(const Cell& cell);

// Whether this module may be loaded now, at the wish of the code that runs: -1 with an exception if
// not.
int check_import(Cell& cell, const std::string& module);
// Modules that functions in C load when they are called. They hold no powers of their own.
bool is_helper(std::string_view module);

// Raises the cell's error for a refused act, tells of it, and returns -1.
int refuse(Cell& cell, PyObject* error, const std::string& capability, const std::string& action,
           Verdict verdict);

}  // namespace glovebox::pyhost
