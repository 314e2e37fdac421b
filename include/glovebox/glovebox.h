// Glovebox as a library: sealed boxes for untrusted code, from C++.
//
//   auto supervisor = glovebox::Supervisor::open();
//   auto session = supervisor->start({.workspaces = {{"/home/alice/project"}},
//                                     .allow = {"connect=api.example.com:443", "memory=512MiB"}});
//   auto tests = session->run(glovebox::Command::shell("pytest -q"));
//   if (tests->code == 0) auto taken = session->commit();
//
// A session is a box that stays. Code in it sees a read-only system, private scratch directories
// and what it was handed; what it changes in a workspace waits for commit(). The words of a request
// are those of the command line and of the HTTP interface, and mean the same.
//
// Every function may be called from every thread and waits until it is done; commands in the shell
// of one session take turns. What ends or moves a handle comes after all other calls of it. Nothing
// throws. SIGPIPE is ignored in a program that has a Supervisor, and with the first box that has a
// network or a directory of the host the highest real-time signal without a handler is taken, for a
// thread of the library's: leave that one alone. What cannot be enforced on this host is an error
// before anything runs. Everything that comes out of a box is untrusted: output, files, paths, all
// of it.
#pragma once

#include <glovebox/error.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox {

namespace library {
class Host;  // what all handles of one Supervisor share
}  // namespace library

// ---- What is asked for --------------------------------------------------------------------------

struct Settings {
  // Where layers are kept while sessions live. Used by one Supervisor at a time, and made if it is
  // missing. Empty: a directory below /var/tmp that goes with the Supervisor.
  std::string state_directory{};
  // The program glovebox-launcher. Empty: the one that was installed with the library.
  std::string launcher{};
  std::size_t max_sessions = 1000;
  // Boxes of each shape that are begun ahead of need.
  std::uint32_t keep_parked = 0;
};

enum class Mode : std::uint8_t {
  Overlay,    // changes land in a layer, and the original waits for commit()
  ReadOnly,   // changes are refused
  ReadWrite,  // changes are made to the directory itself
};

struct Workspace {
  std::string path;  // absolute; the box sees it at the same path
  Mode mode = Mode::Overlay;
};

struct Request {
  std::string name{};  // for people
  // Commands start in the first. Without any they start in a home that goes with the box.
  std::vector<Workspace> workspaces{};
  // A template by name ("agent", "readonly", ...), or a document in YAML or JSON; at most one.
  std::string policy{};
  std::string policy_document{};
  // KIND=VALUE, as --allow and --deny take them: "read=/srv/data", "connect=example.com:443",
  // "memory=256MiB", "wall=30s". A denial wins over everything that is granted.
  std::vector<std::string> allow{};
  std::vector<std::string> deny{};
  std::map<std::string, std::string> env{};
  double cpus = 0;  // processors to use at the most; 0: all
  // The session ends by itself when it was not used for so long. Zero: never.
  std::chrono::milliseconds idle_timeout{0};
  // The box shows that its guarantees hold before it is handed out (some milliseconds).
  bool prove = false;
};

struct Command {
  std::string code{};               // for the session's shell, which keeps directory and variables;
  std::vector<std::string> argv{};  // or a program that is started without one, also in parallel
  std::map<std::string, std::string> env{};
  std::string cwd{};                                   // empty: the shell's
  std::optional<std::chrono::milliseconds> timeout{};  // then it is ended, with all it started

  static Command shell(std::string code) { return {.code = std::move(code)}; }
  static Command program(std::vector<std::string> argv) { return {.argv = std::move(argv)}; }
};

enum class Stream : std::uint8_t { Output, Error };

// Takes output as it comes, on a thread of the library's; while it works, the command waits. It
// must not call the library.
using OutputSink = std::function<void(Stream stream, std::string_view bytes)>;

// ---- What comes out -----------------------------------------------------------------------------

struct Ended {
  int code = 0;  // as a shell counts: 128 + n after signal n
  bool timed_out = false;
  std::string limit{};  // the limit that it met ("disk"); empty: none
};

// A command with its output. More than kMostOutput on a stream ends the command with
// Code::Exhausted; use a sink for more.
struct Ran : Ended {
  std::string output{};
  std::string error{};
};
inline constexpr std::size_t kMostOutput = std::size_t{16} << 20;

struct Guarantee {
  std::string name;
  std::string by;
};

struct Change {
  std::string path;  // relative to the workspace, as the box named it
  std::string kind;  // "added", "modified", "deleted", ...
};

struct Committed {
  std::vector<Change> applied{};         // what was taken over
  std::vector<std::string> held{};       // why nothing was: what would run on the host later,
  std::vector<std::string> conflicts{};  // or what the original became since

  bool is_refused() const { return !held.empty() || !conflicts.empty(); }
};

// Which changes a commit is about: globs of paths.
struct Selection {
  std::vector<std::string> only{};    // empty: all
  std::vector<std::string> reject{};  // wins over `only`
  std::vector<std::string> accept{};  // what is held back and may pass all the same
};

// ---- Handles ------------------------------------------------------------------------------------

// A box that stays. It ends with its handle, and what was not committed is gone then.
class GLOVEBOX_API Session {
 public:
  Session(Session&& other) noexcept;
  Session& operator=(Session&& other) noexcept;
  ~Session();

  const std::string& id() const { return id_; }

  // To the command's end. A command that fails is no error; its code says so.
  Result<Ended> run(const Command& command, const OutputSink& sink);
  Result<Ran> run(const Command& command);

  // Files as the box sees them; relative paths mean the first workspace. What is read must not be
  // larger than `most` (Code::Exhausted). A file is written as a whole, with the directories above.
  Result<std::string> read_file(const std::string& path, std::size_t most = kMostOutput);
  Result<void> write_file(const std::string& path, std::string_view bytes);

  // What the box changed in its first layered workspace: a list, or a unified diff with git's
  // headers. Code::Exhausted for a list of hundreds of thousands: commit() does not need it.
  Result<std::vector<Change>> changes();
  Result<std::string> diff(std::size_t most = kMostOutput);
  // Takes changes over into the original; undo() takes the last commit back.
  Result<Committed> commit(const Selection& selection = {});
  Result<void> undo();

  // Sessions that begin where this one is, with its files and its shell's variables.
  Result<std::vector<Session>> fork(std::size_t count);
  // A fresh box for the same session: nothing runs, and nothing was changed.
  Result<void> recycle();

  // What holds this box: each guarantee, and what enforces it.
  Result<std::vector<Guarantee>> enforced();

  // Ends the box and waits until nothing of it is left. The handle can only be destroyed then.
  Result<void> end();

 private:
  friend class Supervisor;
  Session(std::shared_ptr<library::Host> host, std::string id);

  std::shared_ptr<library::Host> host_;
  std::string id_;
};

// Owns the launcher process and all sessions. It ends with its handle, and all boxes with it, also
// when this process is killed. A forked child has no part in it: its calls are Code::Invalid.
class GLOVEBOX_API Supervisor {
 public:
  static Result<Supervisor> open(const Settings& settings = {});

  Supervisor(Supervisor&& other) noexcept;
  Supervisor& operator=(Supervisor&& other) noexcept;
  ~Supervisor();

  Result<Session> start(const Request& request);
  // A session for one command.
  Result<Ran> run(const Request& request, const Command& command);
  // Whether the request could be started here; the error that start() would give, and nothing is
  // done.
  Result<void> check(const Request& request);

 private:
  explicit Supervisor(std::shared_ptr<library::Host> host);

  std::shared_ptr<library::Host> host_;
};

}  // namespace glovebox
