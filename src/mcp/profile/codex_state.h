// The sandbox that Codex says applies to a call, in all the forms that its releases have sent:
// 0.122 `sandboxPolicy`; 0.128 both; 0.149 to 0.160 `permissionProfile`; 0.166 the same under two
// keys, with a launcher beside them.
//
// The rule here is: whatever changes what may be done is understood or refused. An unknown kind,
// access or field of a policy, two forms that disagree, and a relative path are all errors, because
// each of them, read leniently, would widen the box. What only names Codex's own helpers is not
// looked at.
#pragma once

#include "base/result.h"
#include "mcp/profile/profile.h"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>

namespace glovebox::mcp {

// Where the payload is in a call's _meta, and the capability that asks a client to send it.
inline constexpr std::string_view kStateMeta = "codex/sandbox-state-meta";
inline constexpr std::string_view kState = "codex/sandbox-state";

// What a profile of the type `external` gets: one whose sandbox another program is said to enforce.
// Codex's own sandbox makes it read-only without network, whatever the payload says about that;
// FullAccess takes the client at its word.
enum class External : std::uint8_t { ReadOnly, FullAccess };

// What `_meta` of a call says. Nothing: it has no payload. Messages of errors begin with "failed to
// parse Codex sandbox state metadata".
Result<std::optional<Profile>> read_codex_state(const boost::json::object& meta,
                                                External external = External::ReadOnly);

}  // namespace glovebox::mcp
