// What must be known of the host to turn a client's sandbox into an authority.
#pragma once

#include "base/result.h"
#include "mcp/profile/deny_glob.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::mcp {

// Which file is at a path; zeros for none.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

struct CoveredPlace {
  std::string path;
  FileId file;
  friend auto operator<=>(const CoveredPlace&, const CoveredPlace&) = default;
};

// An interface: tests bring a host of their own.
class HostView {
 public:
  enum class Kind : std::uint8_t { Directory, Other };

  virtual ~HostView() = default;
  // Names of the directories (not of links to some) in a directory; none when it cannot be read.
  virtual std::vector<std::string> directories(const std::string& path) const = 0;
  // Names at the top that every box has already: usr, etc, bin, ...
  virtual std::vector<std::string> system() const = 0;
  // What a path leads to, links followed. Nothing: it is not there.
  virtual std::optional<Kind> look_at(const std::string& path) const = 0;
  // Whether another box holds the name (placeholders.h): it counts as missing.
  virtual bool is_placeholder(const std::string& path) const = 0;
  // The path without links, as far as it exists.
  virtual std::string resolve(const std::string& path) const = 0;
  virtual bool is_link(const std::string& path) const = 0;
  // What is in a regular file of at most 4 KiB, links not followed. Nothing: there is none; longer
  // ones and those that cannot be read are errors.
  virtual Result<std::optional<std::string>> read_small_file(const std::string& path) const = 0;
  // What to cover for a deny glob; see find_matches().
  virtual Result<std::vector<std::string>> matches(const DenyGlob& glob, const std::string& root,
                                                   std::span<const std::string> kept) const = 0;
  // What is at a path, links not followed.
  virtual FileId identify(const std::string& path) const = 0;
  virtual std::string home() const = 0;  // the caller's; may be empty
  // A variable of the caller's; empty when it is not set.
  virtual std::string variable(std::string_view name) const = 0;
};

}  // namespace glovebox::mcp
