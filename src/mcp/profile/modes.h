// The sandbox that the words of `glovebox mcp` ask for.
//
// --sandbox, --add-writable-root, --add-allowed-domain and --config are read in the order in which
// they were written. --sandbox (and --config sandbox_mode=) chooses a mode afresh and drops what
// was added to the one before; the others refine the mode that holds where they stand.
#pragma once

#include "base/result.h"
#include "mcp/profile/profile.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace glovebox::mcp {

enum class Mode : std::uint8_t { ReadOnly, WorkspaceWrite, FullAccess, Inherit };
Result<Mode> parse_mode(std::string_view text);

// One word of the command line.
struct ModeWord {
  enum class Kind : std::uint8_t { Sandbox, AddWritableRoot, AddAllowedDomain, Config };
  Kind kind = Kind::Sandbox;
  std::string value;
};

// What is asked for on top of a mode.
struct Refinements {
  std::vector<std::string> writable_roots;  // absolute
  std::optional<bool> network_access;
  std::optional<bool> exclude_tmpdir;
  std::optional<bool> exclude_slash_tmp;
  std::vector<std::string> allowed_domains;
  std::vector<std::string> denied_domains;

  bool empty() const { return *this == Refinements(); }
  friend bool operator==(const Refinements&, const Refinements&) = default;
};

struct ModeChoice {
  Mode mode = Mode::WorkspaceWrite;
  Refinements refinements;
  friend bool operator==(const ModeChoice&, const ModeChoice&) = default;
};

Result<ModeChoice> choose_mode(std::span<const ModeWord> words);

// The profile of a mode that is not Inherit.
Profile make_profile(const ModeChoice& choice, const std::string& cwd);

// What was asked for on the command line, added to what a client sent. Code::Invalid, saying that
// it requires workspace-write mode, when the client's sandbox is another.
Result<Profile> refine(Profile inherited, const Refinements& refinements);

}  // namespace glovebox::mcp
