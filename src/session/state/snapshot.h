// A session as a value: everything that is needed to make one like it, and nothing that runs.
//
//   TRY(const Snapshot taken, co_await manager.snapshot(id));
//   TRY(const std::string text, encode_snapshot(taken));   // JSON
//   TRY(const Snapshot back, decode_snapshot(text));       // back == taken
//
// The law: a session that is made from the snapshot of another has the same snapshot, but for its
// id and its layers' names, whatever capabilities it holds. What cannot be made again is refused
// when the snapshot is taken, with its name: a variable or an inline policy whose text is gone with
// a former service, a policy that has changed since, a path or a secret that is not there any more.
//
// The text holds values of variables and inline policies, so it is written to no disk as it is: a
// checkpoint file encrypts it. Secrets are in it by name alone, and looked up again when a session
// is made from it.
#pragma once

#include "session/state/shell_state.h"
#include "session/store/session_info.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::session {

// What of a session can be taken along.
enum class StateKind : std::uint8_t {
  Config,  // request, policy, authority, labels, the shell's directory and variables
  Files,   // what its boxes wrote into layers
  Memory,  // running processes
};
// "config", "files", "memory".
std::string_view to_text(StateKind kind);
Result<StateKind> parse_state_kind(std::string_view text);

// What a layer holds, its frozen ones included.
struct LayerManifest {
  std::string workspace;  // path of the workspace
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;  // of files
  friend bool operator==(const LayerManifest&, const LayerManifest&) = default;
};

struct Snapshot {
  std::string id;      // of the session that it was taken of
  std::string parent;  // the session that that one was forked from; empty: none
  // As in SessionInfo::effective, and with the values of variables and the policy's document.
  BoxRequest spec;
  std::optional<plan::PolicyMark> policy;
  std::optional<ShellState> shell;  // nothing when no box was there to ask
  std::vector<LayerManifest> layers;
  std::vector<StateKind> state;  // what it came with
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Bounds on the text of one.
inline constexpr std::size_t kMaxSnapshotBytes = std::size_t{16} << 20;

Result<std::string> encode_snapshot(const Snapshot& snapshot);
// Refuses another version, a field too many, one too few, and what is no value of its type.
Result<Snapshot> decode_snapshot(std::string_view text);

}  // namespace glovebox::session
