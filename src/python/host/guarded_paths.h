// Paths as the guard reads them: the bytes that the kernel will be given, and where they lead.
//
// Nothing here runs code of the cell's. In particular no codec is asked whose error handlers the
// cell could have replaced: the guard would then decide on other bytes than the kernel is given.
#pragma once

#include "python/host/api.h"

#include <optional>
#include <string>
#include <string_view>

namespace glovebox::pyhost {

// The bytes of a text or bytes object. Nothing for any other object, which would be turned into a
// path by its own code, each time anew; and nothing for text that stands for no bytes.
std::optional<std::string> path_text(PyObject* path);

// Where a path leads: links are followed as far as the path exists. Nothing when that cannot be
// told.
std::optional<std::string> resolve(const std::string& path);

// The directory that a relative path begins at. Nothing when it cannot be told: one that is no
// directory leads nowhere.
std::optional<std::string> base_of(int dir_fd);

// What leads past the guard: memory of processes, and their descriptors, whatever is granted.
bool is_inside_process(std::string_view path);

// Whether text becomes bytes here as path_text() has it. Once per process, before the first cell.
bool has_utf8_paths();

}  // namespace glovebox::pyhost
