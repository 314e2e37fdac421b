// A sandbox as MCP clients describe one: a mode of the command line, or what Codex sends with a
// call. One value for both, so that everything behind it (comparing, planning, reporting) exists
// once. profile_to_request.h turns it into a session's authority.
#pragma once

#include "base/result.h"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::mcp {

// Ordered: of two entries about one path the greater holds.
enum class Access : std::uint8_t { Read, Write, Deny };
std::string_view to_text(Access access);

// One path and what may be done there and below, until a deeper entry says otherwise.
struct PathEntry {
  std::string path;  // absolute
  Access access = Access::Read;
  friend bool operator==(const PathEntry&, const PathEntry&) = default;
  friend auto operator<=>(const PathEntry&, const PathEntry&) = default;
};

// What holds where no entry says anything.
enum class Reach : std::uint8_t {
  Nothing,
  System,      // the programs and libraries that every box has
  ReadAll,     // every directory of the host that a box can be shown
  WriteAll,    // the same, for writing
  FullAccess,  // the same; and nothing in it is protected
};

enum class Network : std::uint8_t { Off, On };

struct Profile {
  Reach reach = Reach::Nothing;
  std::vector<PathEntry> entries;  // sorted, each path once; see normalize()
  // Deny what matches. Only entries that exist when the box starts can be covered.
  std::vector<std::string> deny_globs;
  Network network = Network::Off;
  // With Network::On: empty means every host.
  std::vector<std::string> allowed_domains;
  std::vector<std::string> denied_domains;
  // Whether the box's /tmp was asked for. It is the box's own, whatever this says.
  bool writes_tmp = false;
  bool writes_tmpdir = false;
  std::string cwd;  // where runs start; absolute
  friend bool operator==(const Profile&, const Profile&) = default;
};

// Sorts the entries and joins those about the same path, so that two payloads which mean the same
// compare equal.
void normalize(Profile& profile);

// "read-only", "workspace-write", "danger-full-access", or "managed" for everything else.
std::string_view mode_name(const Profile& profile);
// For the notice that a policy has changed, and for the `sandbox` tool.
boost::json::object to_json(const Profile& profile);

// Names that are read-only below every place that may be written, there or not: what runs when
// a program uses the directory outside of the box.
inline constexpr std::string_view kProtectedNames[] = {".git", ".codex", ".agents", ".aws"};

}  // namespace glovebox::mcp
