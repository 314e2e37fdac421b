// What a Python session needs beside its box: which interpreter, and what its host is told.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "host/path_facts.h"
#include "plan/spec.h"
#include "request/box_request.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

struct PythonPlan {
  std::string extension;             // the directory of the host's extension
  std::string interpreter;           // as the box sees it
  std::string environment;           // of a virtual environment its directory
  std::vector<std::string> preload;  //
  Backend backend = Backend::Process;
  // Everything the cell may do; the box is held to the part that the kernel can tell.
  authority::AuthoritySet authority;
  std::vector<plan::Workspace> workspaces;
  std::string name;  // of the cell, for events
  // Of one operation, not of the session.
  std::optional<std::chrono::milliseconds> wall;
  // What a cell may send out in all. An interpreter with a box of its own has this from its box.
  std::optional<std::uint64_t> output_bytes;
  // Where the secrets are that the cell may use. They are never in its box (python_secret.h).
  std::map<std::string, host::PathFacts> secrets;
  // The last number of a request that an earlier interpreter of the session has used: an answer to
  // that is none for this one's.
  std::uint64_t last_request = 0;
};

// Takes out of the spec what only the Python host can keep, and puts the interpreter's own files
// into it. `extension` is the directory that write_python_extension() made; the spec's authority
// lets it be read. Refusals: an interpreter that is not there.
Result<PythonPlan> plan_python(const BoxRequest& request, const std::string& extension,
                               plan::SandboxSpec& spec);

// The rules of the authority that the Python host keeps, for the report.
std::vector<std::string> python_terms(const PythonPlan& plan);

// The command that starts the host in its box, and the message that hands a cell its authority.
std::vector<std::string> python_command(const PythonPlan& plan);
std::string python_begin(const PythonPlan& plan);

// Writes the extension into a directory of its own below `directory`, which boxes then see, and
// returns that. The file is named by what it holds: it is written once and never changed.
Result<std::string> write_python_extension(const std::string& directory);

}  // namespace glovebox::session
