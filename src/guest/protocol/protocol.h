// What the supervisor and the session agent (PID 1 of a session's box) say to each other.
//
// One frame is a fixed header and a payload of fields. Over a SOCK_SEQPACKET socket each packet is
// one frame, and pipes travel as descriptors with it. Over a byte stream the same frames follow one
// another, and what would go through pipes travels in Input and Output frames, as far as the
// receiver has given credit. docs/reference/agent-protocol.md is the reference.
//
// The id names what a frame is about. The supervisor picks it when it starts a run or a job, never
// uses it twice, and every answer carries it. Frames about the session as a whole have id 0.
//
// decode_request and decode_reply are total and strict: an unknown type, an unknown version, a
// value outside its enumeration, a field that is cut short and bytes left over are all refused. The
// supervisor reads frames of a peer that the box's code may have taken over; it believes none of
// them further than its own books (agent_link.h).
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace glovebox::guest {

inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kHeaderSize = 20;
inline constexpr std::size_t kMaxFrame = std::size_t{64} << 10;  // with its header
inline constexpr std::size_t kMaxChunk = std::size_t{32} << 10;  // of one Input, Output or CodePart
inline constexpr std::size_t kMaxFrameFds = 3;  // descriptors that come with one frame
inline constexpr std::size_t kMaxCode = std::size_t{4} << 20;  // of a run, in all its frames
inline constexpr std::uint64_t kInitialCredit = std::uint64_t{256} << 10;  // of one stream
// How many runs and jobs one agent has at a time, and over a byte stream how many streams, those of
// runs that are over included.
inline constexpr std::size_t kMaxRuns = 64;
inline constexpr std::size_t kMaxJobs = 32;
inline constexpr std::size_t kMaxStreams = 512;

using Id = std::uint64_t;
inline constexpr Id kSessionId = 0;

enum class Transport : std::uint8_t { Packets, Stream };
enum class Stream : std::uint8_t { Input, Output, Error };
constexpr Stream last_of(Stream /*unused*/) { return Stream::Error; }
enum class ShellKind : std::uint8_t { None, Bash, Sh };
constexpr ShellKind last_of(ShellKind /*unused*/) { return ShellKind::Sh; }

// Where the code of a run executes.
enum class RunMode : std::uint8_t {
  Shell,  // in the session's persistent shell; one at a time
  Fresh,  // in a shell of its own, with the persistent one's directory and exported variables
  Exec,   // argv, without a shell
};
constexpr RunMode last_of(RunMode /*unused*/) { return RunMode::Exec; }

enum class RunIo : std::uint8_t { Pipes, Terminal, Joined };  // Joined: one pipe, in order
constexpr RunIo last_of(RunIo /*unused*/) { return RunIo::Joined; }
enum class RunInput : std::uint8_t { Empty, Streamed };
constexpr RunInput last_of(RunInput /*unused*/) { return RunInput::Streamed; }
enum class EndKind : std::uint8_t { Exited, Signaled };
constexpr EndKind last_of(EndKind /*unused*/) { return EndKind::Signaled; }
// What became of the persistent shell. None: the run did not use it.
enum class ShellState : std::uint8_t { None, Kept, Fresh };
constexpr ShellState last_of(ShellState /*unused*/) { return ShellState::Fresh; }

enum class JobKind : std::uint8_t {
  Info,           // what is known of one path
  Read,           // a range of a regular file, to the job's output
  Write,          // the job's input, to a file that is replaced as a whole
  Remove,         // one file or empty directory; with kRecursive everything below too
  Move,           // path to target
  SetAttributes,  // mode, owner, group
  MakeDirectory,  // with kParents: the missing ones above as well
  List,           // entries below a directory, to the job's output
  Search,         // entries below a directory whose path matches a pattern
  Replace,        // one text by another in a file
  Hash,           // SHA-256 of a regular file
  Pack,           // a tree as a tar archive, to the job's output
  Unpack,         // a tar archive from the job's input, into a directory
};
constexpr JobKind last_of(JobKind /*unused*/) { return JobKind::Unpack; }

// Flags of a job. One that the job's kind does not know is refused.
inline constexpr std::uint32_t kRecursive = 1;       // Remove
inline constexpr std::uint32_t kParents = 2;         // Write, Move, MakeDirectory, Unpack
inline constexpr std::uint32_t kKeepTarget = 4;      // Write, Move: an existing target is an error
inline constexpr std::uint32_t kFollow = 8;          // Info, SetAttributes: follow a final link
inline constexpr std::uint32_t kIgnoreCase = 16;     // Search
inline constexpr std::uint32_t kMissingIsFine = 32;  // Remove

inline constexpr std::uint32_t kAnyMode = 0xffff'ffff;  // as it is, or what a new file gets

// From the supervisor.
struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::string workspace;            // absolute; relative paths start here
  std::vector<std::string> shells;  // candidates, absolute; the first that is there is used
  std::vector<std::string> env;     // NAME=value, for everything the session runs
  bool operator==(const Hello&) const = default;
};

// A part of the code of the run that the next StartRun with the same id starts.
struct CodePart {
  std::string bytes;
  bool operator==(const CodePart&) const = default;
};

struct StartRun {
  RunMode mode = RunMode::Shell;
  RunIo io = RunIo::Pipes;
  RunInput input = RunInput::Empty;
  std::uint16_t rows = 0;  // Terminal
  std::uint16_t columns = 0;
  std::string code;               // Shell, Fresh; appended to the parts sent before
  std::vector<std::string> argv;  // Exec
  std::vector<std::string> env;   // NAME=value, for this run alone
  std::string cwd;                // empty: the shell's own, or the workspace
  bool operator==(const StartRun&) const = default;
};

// Bytes for a run or a job; byte streams only.
struct Input {
  std::string bytes;
  bool operator==(const Input&) const = default;
};
struct InputEnd {
  bool operator==(const InputEnd&) const = default;
};
struct Resize {
  std::uint16_t rows = 0;
  std::uint16_t columns = 0;
  bool operator==(const Resize&) const = default;
};
struct SignalRun {
  std::uint32_t signal = 0;
  bool operator==(const SignalRun&) const = default;
};
// SIGINT, after a third of the grace SIGTERM, at its end SIGKILL.
struct KillRun {
  std::uint32_t grace_ms = 0;
  bool operator==(const KillRun&) const = default;
};

struct StartJob {
  JobKind kind = JobKind::Info;
  std::uint32_t flags = 0;
  std::string path;               // relative to the workspace, or absolute inside the box
  std::string target;             // Move: the new path. Search: the pattern
  std::string old_text;           // Replace
  std::string new_text;           // Replace
  std::string owner;              // SetAttributes, Write: name or number; empty: unchanged
  std::string group;              //
  std::uint32_t mode = kAnyMode;  // SetAttributes, Write, MakeDirectory
  std::uint64_t offset = 0;       // Read
  std::uint64_t limit = 0;        // Read: bytes. List: depth. Search: entries. 0: no limit
  bool operator==(const StartJob&) const = default;
};
struct CancelJob {
  bool operator==(const CancelJob&) const = default;
};
// Both directions: so many bytes more may be sent on this stream.
struct Credit {
  Stream stream = Stream::Output;
  std::uint64_t bytes = 0;
  bool operator==(const Credit&) const = default;
};
struct Shutdown {
  bool operator==(const Shutdown&) const = default;
};

using Request = std::variant<Hello, CodePart, StartRun, Input, InputEnd, Resize, SignalRun, KillRun,
                             StartJob, CancelJob, Credit, Shutdown>;

// From the agent.
struct Ready {
  std::uint32_t version = kProtocolVersion;
  ShellKind shell = ShellKind::None;
  bool operator==(const Ready&) const = default;
};
// With descriptors over packets: the reading ends of output and, with Pipes, error output; then the
// writing end of the input if it is streamed.
struct RunStarted {
  bool operator==(const RunStarted&) const = default;
};
// The run's own part is over, and everything it printed can be read. What it left in the
// background may hold the pipes longer.
struct RunEnded {
  EndKind kind = EndKind::Exited;
  std::uint32_t value = 0;  // exit code or signal
  ShellState shell = ShellState::None;
  bool operator==(const RunEnded&) const = default;
};
struct JobEnded {
  std::uint32_t os_errno = 0;  // 0 with an empty message: done
  std::uint8_t code = 0;       // Code, when message is not empty
  std::string message;
  std::uint64_t count = 0;  // bytes, replacements, entries
  std::string detail;       // Info: one Entry. Hash: 64 hexadecimal digits
  bool operator==(const JobEnded&) const = default;
};
// The request with this id was not started, and nothing more comes about it.
struct Refused {
  std::uint8_t code = 0;  // Code
  std::uint32_t os_errno = 0;
  std::string message;
  bool operator==(const Refused&) const = default;
};
struct Output {
  Stream stream = Stream::Output;
  std::string bytes;
  bool operator==(const Output&) const = default;
};
struct OutputEnd {
  Stream stream = Stream::Output;
  bool operator==(const OutputEnd&) const = default;
};

// A run that was over in a moment, in place of RunStarted and RunEnded: its end, and everything it
// printed. Over packets, for runs without streamed input that left nothing in the background.
struct RunDone {
  RunEnded end;
  std::string output;  // at most kMaxChunk, with the error output
  std::string error;   // Pipes
  bool operator==(const RunDone&) const = default;
};

using Reply = std::variant<Ready, RunStarted, RunEnded, JobEnded, Refused, Output, OutputEnd,
                           Credit, RunDone>;

template <class Body>
struct Frame {
  Id id = kSessionId;
  std::uint16_t fd_count = 0;
  Body body;
  bool operator==(const Frame&) const = default;
};

// A body too large for a frame is Code::Exhausted.
Result<std::string> encode(const Frame<Request>& frame);
Result<std::string> encode(const Frame<Reply>& frame);
Result<Frame<Request>> decode_request(std::string_view bytes);
Result<Frame<Reply>> decode_reply(std::string_view bytes);

// How long the frame is that begins here; nothing before its whole header. A bad one is an error.
Result<std::optional<std::size_t>> frame_size(std::string_view bytes);

}  // namespace glovebox::guest
