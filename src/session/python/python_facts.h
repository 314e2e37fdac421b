// What is known of an interpreter before it is started.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glovebox::session {

// An absolute path as it is, and a bare name looked up among the system's programs.
Result<std::string> find_interpreter(const std::string& name);

// From this CPython 3 on the cells of one owner and one authority share a worker. Below, a worker
// holds one cell in all its life (docs/decisions/0027-one-cell-per-worker.md).
inline constexpr unsigned kFirstSharingMinor = 12;

struct PythonFacts {
  std::string interpreter;        // where its name leads
  std::optional<unsigned> minor;  // of CPython 3, by that name: "python3.11"

  // As many as a worker of it holds; one when it is not known.
  std::uint32_t cells_per_worker() const;

  friend bool operator==(const PythonFacts&, const PythonFacts&) = default;
};

PythonFacts python_facts(std::string_view resolved_path);

// The interpreter that a Python session gets when it names none; nothing when there is none.
std::optional<PythonFacts> find_default_python();

}  // namespace glovebox::session
