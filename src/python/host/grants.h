// What one cell may do, as the supervisor told it: the part of its AuthoritySet that code inside
// the interpreter can be held to.
//
// The rules come in the set's normal form, in which the most specific rule decides
// (authority/authority_set.h). The kernel holds the box to the same set from outside; this is the
// finer and friendlier half, and the only one that tells imports from each other.
#pragma once

#include "python/host/api.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace glovebox::pyhost {

enum class Verdict : std::uint8_t { Allow, Silent, Deny };

class Grants {
 public:
  // From the message Begin. False with an exception set.
  bool read(PyObject* begin);

  // Whether the cell's own code may import this module.
  Verdict import(std::string_view module) const;
  // Whether a module may be loaded because code of a library wants it: everything of the standard
  // library that is not denied, and what shares its top package with a grant. With a grant on what
  // is below another package, everything that is not denied: such packages load each other.
  bool may_load(std::string_view module) const;
  // Whether it is of a package of which something is granted.
  bool shares_package(std::string_view module) const;
  // Paths are absolute, without links in them.
  Verdict file_read(std::string_view path) const { return decide(reads_, path); }
  Verdict file_write(std::string_view path) const { return decide(writes_, path); }
  Verdict exec(std::string_view path) const { return decide(execs_, path); }
  bool has_network() const { return has_network_; }
  bool has_unix() const { return has_unix_; }
  bool has_exec() const { return !execs_.empty(); }

  // Source and compiled files of libraries, which library code may read.
  bool is_library(std::string_view path) const;
  void add_library(std::string root) { libraries_.push_back(std::move(root)); }
  void set_standard(std::unordered_set<std::string> names) { standard_ = std::move(names); }

  const std::string& name() const { return name_; }
  const std::vector<std::string>& capabilities() const { return capabilities_; }
  std::optional<std::uint64_t> cpu_ms() const { return cpu_ms_; }
  std::optional<std::uint64_t> memory_bytes() const { return memory_bytes_; }
  // The number that requests count on from.
  std::uint64_t last_request() const { return last_request_; }

 private:
  struct PathRule {
    Verdict verdict;
    std::string path;
  };
  struct ModuleRule {
    Verdict verdict;
    std::string name;
    bool is_below;  // every module below the name; with an empty name, every module
  };

  bool has_package() const;
  static Verdict decide(const std::vector<PathRule>& rules, std::string_view path);

  std::string name_;
  std::vector<PathRule> reads_;
  std::vector<PathRule> writes_;
  std::vector<PathRule> execs_;
  std::vector<ModuleRule> modules_;
  std::vector<std::string> capabilities_;
  std::vector<std::string> libraries_;
  std::unordered_set<std::string> standard_;
  bool has_network_ = false;
  bool has_unix_ = false;
  std::optional<std::uint64_t> cpu_ms_;
  std::optional<std::uint64_t> memory_bytes_;
  std::uint64_t last_request_ = 0;
};

// Whether `path` is `root` or beneath it.
bool is_within(std::string_view path, std::string_view root);

}  // namespace glovebox::pyhost
