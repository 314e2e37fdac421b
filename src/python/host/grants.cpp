#include "python/host/grants.h"

#include "python/host/value.h"

#include <algorithm>

namespace glovebox::pyhost {
namespace {

std::optional<std::uint64_t> number_at(PyObject* dict, const char* key) {
  PyObject* found = PyDict_GetItemString(dict, key);
  if (found == nullptr || !PyLong_Check(found)) return std::nullopt;
  return PyLong_AsUnsignedLongLong(found);
}

bool flag_at(PyObject* dict, const char* key) { return PyDict_GetItemString(dict, key) == Py_True; }

Verdict to_verdict(std::string_view word) {
  return word == "allow" ? Verdict::Allow : word == "deny" ? Verdict::Deny : Verdict::Silent;
}

std::vector<std::vector<std::string>> rows_at(PyObject* dict, const char* key) {
  std::vector<std::vector<std::string>> rows;
  PyObject* list = PyDict_GetItemString(dict, key);
  if (list == nullptr || !PyList_Check(list)) return rows;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    PyObject* row = PyList_GetItem(list, i);
    std::vector<std::string> words;
    for (Py_ssize_t j = 0; PyList_Check(row) && j < PyList_Size(row); ++j) {
      words.push_back(to_utf8(PyList_GetItem(row, j)));
    }
    rows.push_back(std::move(words));
  }
  return rows;
}

std::string_view top_of(std::string_view module) { return module.substr(0, module.find('.')); }

}  // namespace

bool is_within(std::string_view path, std::string_view root) {
  if (root == "/") return true;
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

bool Grants::read(PyObject* begin) {
  if (!PyDict_Check(begin)) {
    PyErr_SetString(PyExc_ValueError, "no authority");
    return false;
  }
  name_ = text_at(begin, "name");
  for (const auto& row : rows_at(begin, "paths")) {
    if (row.size() != 3) continue;
    auto& rules = row[1] == "read" ? reads_ : row[1] == "write" ? writes_ : execs_;
    rules.push_back({to_verdict(row[0]), row[2]});
  }
  for (const auto& row : rows_at(begin, "imports")) {
    if (row.size() != 2) continue;
    std::string name = row[1];
    const bool is_below = name == "*" || name.ends_with(".*");
    if (is_below) name.resize(name == "*" ? 0 : name.size() - 2);
    modules_.push_back({to_verdict(row[0]), std::move(name), is_below});
  }
  for (const auto& row : rows_at(begin, "capabilities")) {
    if (row.size() == 1) capabilities_.push_back(row[0]);
  }
  has_network_ = flag_at(begin, "network");
  has_unix_ = flag_at(begin, "unix");
  cpu_ms_ = number_at(begin, "cpu_ms");
  memory_bytes_ = number_at(begin, "memory_bytes");
  last_request_ = number_at(begin, "last_request").value_or(0);
  return PyErr_Occurred() == nullptr;
}

// The deepest rule decides; on a tie the severer does.
Verdict Grants::decide(const std::vector<PathRule>& rules, std::string_view path) {
  Verdict verdict = Verdict::Silent;
  std::size_t depth = 0;
  for (const PathRule& rule : rules) {
    if (!is_within(path, rule.path) || rule.path.size() < depth) continue;
    verdict = rule.path.size() > depth ? rule.verdict : std::max(verdict, rule.verdict);
    depth = rule.path.size();
  }
  return verdict;
}

Verdict Grants::import(std::string_view module) const {
  Verdict verdict = Verdict::Silent;
  std::size_t best = 0;
  for (const ModuleRule& rule : modules_) {
    const bool fits = rule.is_below ? rule.name.empty() || (module.size() > rule.name.size() &&
                                                            module.starts_with(rule.name) &&
                                                            module[rule.name.size()] == '.')
                                    : module == rule.name;
    // A module's own rule beats any pattern.
    const std::size_t weight = rule.name.size() + (rule.is_below ? 1 : 100'000);
    if (!fits || weight < best) continue;
    verdict = weight > best ? rule.verdict : std::max(verdict, rule.verdict);
    best = weight;
  }
  return verdict;
}

bool Grants::may_load(std::string_view module) const {
  const Verdict own = import(module);
  if (own != Verdict::Silent) return own == Verdict::Allow;
  const std::string_view top = top_of(module);
  // Native calls from Python are a grant of their own, whichever module imports them.
  if (top == "ctypes" || top == "_ctypes") return import("ctypes") == Verdict::Allow;
  return standard_.contains(std::string(top)) || shares_package(module) || has_package();
}

// Whether there is a grant on a package with what is below it that is not of the standard library.
bool Grants::has_package() const {
  return std::ranges::any_of(modules_, [&](const ModuleRule& rule) {
    return rule.verdict == Verdict::Allow && rule.is_below && !rule.name.empty() &&
           !standard_.contains(std::string(top_of(rule.name)));
  });
}

bool Grants::shares_package(std::string_view module) const {
  const std::string_view top = top_of(module);
  return std::ranges::any_of(modules_, [&](const ModuleRule& rule) {
    return rule.verdict == Verdict::Allow && (rule.name.empty() || top_of(rule.name) == top);
  });
}

bool Grants::is_library(std::string_view path) const {
  return std::ranges::any_of(libraries_,
                             [&](const std::string& root) { return is_within(path, root); });
}

}  // namespace glovebox::pyhost
