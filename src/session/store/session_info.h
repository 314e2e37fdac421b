// What is known of a session, as values: for lists, reports, the store and events.
#pragma once

#include "launch/exit_report.h"
#include "plan/launch_plan.h"
#include "request/box_request.h"
#include "workspace/layer/layer.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

using WallTime = std::chrono::system_clock::time_point;

enum class SessionState : std::uint8_t {
  Active,
  Dead,  // the box is gone; layers and records are there until the session is deleted
};
// "active", "dead".
std::string_view to_text(SessionState state);

// Why a session is over.
enum class EndCause : std::uint8_t {
  Deleted,       // it was asked for
  Idle,          // it was not used for its idle timeout
  Limit,         // a budget, see SessionEnd::limit
  AgentGone,     // the box's PID 1 ended
  AgentBroke,    // the agent said what no agent says
  LauncherGone,  // the launcher process died, and its boxes with it
  ServiceEnded,  // the service ended, or was killed, while the box was running
  Network,       // it kept a connection that was taken from it
};
// "deleted", "idle", "limit", "agent_gone", ...
std::string_view to_text(EndCause cause);

struct SessionEnd {
  EndCause cause = EndCause::Deleted;
  std::optional<launch::LimitKind> limit;
  std::string sentence;  // for people
  WallTime at;
  friend bool operator==(const SessionEnd&, const SessionEnd&) = default;
};

// One workspace of a session, as it was handed in.
struct WorkspaceInfo {
  std::string path;  // resolved
  WorkspaceMode mode = WorkspaceMode::Overlay;
  std::string layer_id{};            // empty: it has none
  std::vector<std::string> below{};  // the frozen layers that it stands on, the topmost first
  std::string inside{};              // its path in the box, if that is another

  const std::string& path_inside() const { return inside.empty() ? path : inside; }
  friend bool operator==(const WorkspaceInfo&, const WorkspaceInfo&) = default;
};

// What becomes of a session's layers when it is over. Keep: those with changes that were not
// committed stay (workspace/layer/kept.h); layers without any go.
enum class LayerFate : std::uint8_t { Remove, Keep };

struct KeptLayer {
  workspace::LayerFacts layer;
  std::uint64_t changes = 0;  // 0: they could not be counted
  friend bool operator==(const KeptLayer&, const KeptLayer&) = default;
};
using LeftBehind = std::vector<KeptLayer>;

// What of a request cannot be had, alone.
enum class RequestFault : std::uint8_t {
  None,     // or something else than these
  Policy,   // there is none of that name, or it says what has no meaning or cannot be applied
  Backend,  // this build, or this kind of session, has none of that name
};

struct SessionInfo {
  std::string id;  // a UUID
  SessionState state = SessionState::Active;
  // As asked for, with the defaults filled in and the paths resolved. Values of variables are left
  // out.
  BoxRequest effective;
  std::vector<WorkspaceInfo> workspaces;
  std::optional<plan::PolicyMark> policy;
  std::string parent;  // the session that it was forked from; empty: none
  WallTime created_at;
  WallTime last_run_at;  // the end of the last run; before the first, created_at
  std::chrono::milliseconds idle_timeout{0};                // 0: never
  std::optional<std::chrono::milliseconds> idle_remaining;  // nothing without a timeout; never < 0
  std::uint64_t runs = 0;
  // What a box has by default and this one not, and why; empty for most.
  std::vector<plan::Guarantee> not_enforced{};
  std::optional<SessionEnd> end;
  friend bool operator==(const SessionInfo&, const SessionInfo&) = default;
};

// A run as the store keeps it.
struct RunRecord {
  // Inner: of the service itself, not recorded.
  enum class Kind : std::uint8_t { Foreground, Background, Inner };

  std::uint64_t number = 0;
  Kind kind = Kind::Foreground;
  WallTime began_at;
  std::optional<WallTime> ended_at;  // nothing while it is under way
  int code = 0;
  bool timed_out = false;
  bool canceled = false;
  std::uint64_t output_bytes = 0;
  std::string problem;  // why it has no code: the session ended, or its output was not read
  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

struct SessionUsage {
  std::uint64_t runs = 0;
  std::uint64_t output_bytes = 0;
  std::optional<std::uint64_t> cpu_ns;  // so far; nothing on a host that does not count it
  std::optional<std::uint64_t> peak_memory_bytes;
  // While the box is there: its memory now, and what its disk budget still has room for.
  std::optional<std::uint64_t> memory_bytes{};
  std::optional<std::uint64_t> disk_free_bytes{};
  friend bool operator==(const SessionUsage&, const SessionUsage&) = default;
};

// What is enforced and by what, and what came of it.
struct SessionReport {
  SessionInfo info;
  std::vector<plan::Guarantee> guarantees;
  std::vector<std::string> proved;  // names of guarantees that the box has shown
  std::vector<plan::Guarantee> terms;
  std::vector<std::string> waived;
  std::string
      plan_text;  // as `glovebox explain` prints it; empty for a session of a former service
  SessionUsage usage;
  std::vector<RunRecord> recent_runs;
};

// What a running box lost to a reload of its policy. Lines are those of policy::Narrowing.
struct NarrowedBox {
  std::vector<std::string> at_once;        // in force
  std::vector<std::string> for_new_boxes;  // this box was started with the old ones, and keeps them
  std::size_t cut = 0;                     // connections that were ended
  friend bool operator==(const NarrowedBox&, const NarrowedBox&) = default;
};

struct NarrowedSession {
  std::string id;
  std::string policy;  // as the session named it
  NarrowedBox box;
  friend bool operator==(const NarrowedSession&, const NarrowedSession&) = default;
};

}  // namespace glovebox::session
