// What a caller asks for: a box for one command, or for a session. Every face (command line, HTTP,
// MCP, C++, Python) fills this value and hands it to Preparer (session/prepare/prepare.h), so the
// same words mean the same box everywhere.
//
// A request is a plain value: nothing in it has been looked up or checked. prepare() does that, and
// echoes the request with every default filled in.
#pragma once

#include "authority/authority_set.h"
#include "authority/backend.h"
#include "authority/workspace_mode.h"
#include "plan/spec.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace glovebox::session {

// How long a session may be idle when its request does not say.
inline constexpr std::chrono::milliseconds kDefaultIdle = std::chrono::seconds(1800);

// Bounds on one request. More is refused with Code::Invalid.
inline constexpr std::size_t kMaxWorkspaces = 16;
inline constexpr std::size_t kMaxBinds = 64;
inline constexpr std::size_t kMaxLabels = 64;
inline constexpr std::size_t kMaxLabelBytes = 256;  // of a label's name, and of its value
inline constexpr std::size_t kMaxNameBytes = 128;
inline constexpr std::size_t kMaxPreloads = 64;
inline constexpr std::size_t kMaxPublished = 64;
inline constexpr std::size_t kMaxResolverBytes = 1024;
inline constexpr std::size_t kMaxPathBytes = 4096;

// What to do about a workspace that does not exist.
enum class IfMissing : std::uint8_t { Make, Refuse };

// A directory to work in, at its own path.
struct WorkspaceRequest {
  std::string path;                     // absolute
  std::optional<WorkspaceMode> mode{};  // nothing: what the policy says, else Overlay
  IfMissing if_missing = IfMissing::Make;
  friend bool operator==(const WorkspaceRequest&, const WorkspaceRequest&) = default;
};

// A file or directory of the host at another path in the box.
struct BindRequest {
  std::string source;  // absolute, and it exists
  std::string dest;    // absolute; empty: as the source
  WorkspaceMode mode = WorkspaceMode::Write;
  friend bool operator==(const BindRequest&, const BindRequest&) = default;
};

// A policy by name or as a document. At most one of the two.
struct PolicyChoice {
  std::string name;      // of the service's policies, of a template, or FILE[#SANDBOX]
  std::string document;  // YAML or JSON, with the sandbox named by `sandbox`
  std::string sandbox;
  // Refuse unless the policy has this digest.
  std::string if_digest;
  // Filled in by prepare(): the policy's paths that lead through links, and where they led when the
  // session was first made. A later box of it follows no others.
  std::map<std::string, std::string> links{};
  friend bool operator==(const PolicyChoice&, const PolicyChoice&) = default;
};

// A session that is a Python interpreter with the channel of python_host.h, instead of a shell.
struct PythonRequest {
  // Absolute, of the host or of a virtual environment; or a bare name that is looked up among the
  // system's programs.
  std::string interpreter = "python3";
  std::vector<std::string> preload;  // modules that are imported ahead of need
  friend bool operator==(const PythonRequest&, const PythonRequest&) = default;
};

struct BoxRequest {
  // One command, which the box ends with. Empty: a session, whose agent runs what it is asked to.
  std::vector<std::string> command;
  std::string name;  // for people; empty: none
  std::map<std::string, std::string> labels;
  // Runs start in the first, and relative paths of file jobs mean it. Without any they start in
  // the box's own home, which is gone with it.
  std::vector<WorkspaceRequest> workspaces;
  std::vector<BindRequest> binds;
  PolicyChoice policy;
  // Capabilities that are handed in, budgets among them. United with what the policy grants.
  authority::AuthoritySet handed;
  // The most that the caller may hand out: everything above is cut down to it, and a workspace or
  // bind outside of it is refused. Nothing: no bound.
  std::optional<authority::AuthoritySet> ceiling;
  // The most of the network, when the session was narrowed while it ran
  // (SessionManager::narrow_session). Every later box of the same request has it too. Nothing: no
  // bound.
  std::optional<authority::AuthoritySet> network_ceiling;
  // The most that a workspace or bind may let a box do, whatever the policy says. A bound of the
  // caller's, as the ceiling is. Nothing: no bound.
  std::optional<WorkspaceMode> most_workspace;
  std::optional<std::uint64_t> cpus_milli;  // 1500: one and a half processors
  std::optional<Backend> backend;           // nothing: what the policy says, else Process
  // The caller's variables, with their values. One that the policy denies is left out. Values are
  // never written to disk.
  std::vector<plan::EnvEntry> env;
  std::optional<uid_t> uid;  // as the box sees them
  std::optional<gid_t> gid;
  // Nothing: kDefaultIdle, or what the service is set to. Zero: never.
  std::optional<std::chrono::milliseconds> idle_timeout;
  std::string hostname = "box";
  // Where the command or the session's shell starts, as the box sees it. Nothing: in the first
  // workspace, else in the box's own home.
  std::optional<std::string> cwd;
  plan::Loopback loopback = plan::Loopback::Up;
  std::vector<plan::Publication> published;  // ports of the box that are opened outside
  // Name servers that are asked for the box, ADDRESS[:PORT][,...]. Empty: the host's.
  std::string resolver;
  std::optional<plan::TerminalSize> terminal;  // the command gets one of its own
  std::optional<std::string> lang;             // LANG and TERM of the command; nothing: plain ones
  std::optional<std::string> term;
  // The box tries its own walls before it is handed out (session/box/self_test.h).
  bool prove = false;
  std::set<std::string> waived;
  std::optional<PythonRequest> python;

  friend bool operator==(const BoxRequest&, const BoxRequest&) = default;
};

// Variables for a box or a run, over every interface: a name that every shell can say
// (authority/names.h), a value without a zero byte. Code::Invalid names the one that is none: in
// NAME=VALUE another split would set another variable than was asked for.
Result<void> check_environment(const std::vector<plan::EnvEntry>& entries);

// What can be told wrong by looking at the request alone. Code::Invalid.
Result<void> check_values(const BoxRequest& request);

// The label by which a service tells whose session it is; who asks for a session cannot choose it.
inline constexpr std::string_view kOwnerLabel = "execd.owner";
// Its value; empty: no owner.
std::string owner_of(const BoxRequest& request);

}  // namespace glovebox::session
