#include "session/python/python_facts.h"

#include "host/path_facts.h"
#include "request/box_request.h"
#include "session/python/python_worker.h"

#include <array>
#include <charconv>

namespace glovebox::session {
namespace {

constexpr std::array<std::string_view, 3> kProgramDirectories = {"/usr/local/bin", "/usr/bin",
                                                                 "/bin"};

}  // namespace

Result<std::string> find_interpreter(const std::string& name) {
  if (name.starts_with('/')) return name;
  if (name.empty() || name.find('/') != std::string::npos || name.starts_with('-')) {
    return fail(Code::Invalid, "python.interpreter is an absolute path or a bare name");
  }
  for (const std::string_view directory : kProgramDirectories) {
    std::string path = fmt::format("{}/{}", directory, name);
    if (host::look_up(path)) return path;
  }
  return fail(Code::NotFound, "there is no interpreter '{}'", name);
}

std::uint32_t PythonFacts::cells_per_worker() const {
  return minor.value_or(0) >= kFirstSharingMinor ? python::kMaxCells : 1;
}

PythonFacts python_facts(std::string_view resolved_path) {
  constexpr std::string_view kPrefix = "python3.";
  PythonFacts facts{std::string(resolved_path), {}};
  const std::string_view name = resolved_path.substr(resolved_path.rfind('/') + 1);
  if (!name.starts_with(kPrefix)) return facts;
  const std::string_view digits = name.substr(kPrefix.size());
  unsigned minor = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), minor);
  if (problem == std::errc{} && end == digits.data() + digits.size()) facts.minor = minor;
  return facts;
}

std::optional<PythonFacts> find_default_python() {
  const auto path = find_interpreter(PythonRequest{}.interpreter);
  if (!path) return std::nullopt;
  const auto found = host::look_up(*path);
  if (!found) return std::nullopt;
  return python_facts(found->path);
}

}  // namespace glovebox::session
