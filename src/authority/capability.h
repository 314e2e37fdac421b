// The capabilities: each a small value that names one thing a box may do.
//
// Every kind is a plain struct of parts that were checked when they were made (an AbsolutePath, a
// PortRange, an EnvName), so a capability that exists is well formed. Values compare, copy and
// print; they open nothing and hold no resource. What a *set* of them means is in authority_set.h.
//
// Each has parse(), from the text that follows the kind in a term ("read=/srv" has "/srv"), and
// value_text(), its inverse; terms.h puts the kind in front.
#pragma once

#include "authority/budgets.h"
#include "authority/names.h"
#include "authority/network.h"
#include "authority/paths.h"
#include "base/result.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace glovebox::authority {

// Reading a file, or listing and reading a tree.
struct ReadPath {
  AbsolutePath path;
  static Result<ReadPath> parse(std::string_view text);
  std::string value_text() const { return path.text(); }
  friend std::strong_ordering operator<=>(const ReadPath&, const ReadPath&) = default;
};

// Writing, creating, renaming and removing; and reading, which it implies.
struct WritePath {
  AbsolutePath path;
  static Result<WritePath> parse(std::string_view text);
  std::string value_text() const { return path.text(); }
  friend std::strong_ordering operator<=>(const WritePath&, const WritePath&) = default;
};

// Executing programs. It implies no reading, as mode 0111 does not.
struct ExecPath {
  AbsolutePath path;
  static Result<ExecPath> parse(std::string_view text);
  std::string value_text() const { return path.text(); }
  friend std::strong_ordering operator<=>(const ExecPath&, const ExecPath&) = default;
};

// Opening TCP connections. A grant on a name lets the broker resolve that name for the connection.
struct ConnectTCP {
  HostPattern host;
  PortRange ports;
  static Result<ConnectTCP> parse(std::string_view text);  // "api.example.com:443"
  std::string value_text() const;
  friend std::strong_ordering operator<=>(const ConnectTCP&, const ConnectTCP&) = default;
};

// Accepting TCP connections on addresses of the box.
struct ListenTCP {
  ListenAddress address;
  PortRange ports;
  static Result<ListenTCP> parse(std::string_view text);  // "127.0.0.1:8000-8100"
  std::string value_text() const;
  friend std::strong_ordering operator<=>(const ListenTCP&, const ListenTCP&) = default;
};

// Connecting to the Unix socket at a path, or to those beneath it.
struct ConnectUnix {
  AbsolutePath path;
  static Result<ConnectUnix> parse(std::string_view text);
  std::string value_text() const { return path.text(); }
  friend std::strong_ordering operator<=>(const ConnectUnix&, const ConnectUnix&) = default;
};

// Asking for the addresses of a name, for programs that look up without connecting.
struct ResolveName {
  DomainPattern name;
  static Result<ResolveName> parse(std::string_view text);
  std::string value_text() const { return name.to_text(); }
  friend std::strong_ordering operator<=>(const ResolveName&, const ResolveName&) = default;
};

// Importing a Python module.
struct Import {
  ModulePattern module;
  static Result<Import> parse(std::string_view text);
  std::string value_text() const { return module.to_text(); }
  friend std::strong_ordering operator<=>(const Import&, const Import&) = default;
};

// An environment variable of the box. Without a value: the caller's own value is passed on. With
// one: it is set to exactly that. The two are different rights and neither covers the other: who
// may pass on the caller's LD_LIBRARY_PATH may not choose it.
struct Env {
  EnvName name;
  std::optional<EnvValue> value;
  static Result<Env> parse(std::string_view text);  // "HOME" or "HOME=/work"
  std::string value_text() const;
  friend std::strong_ordering operator<=>(const Env&, const Env&) = default;
};

// A secret by reference. No capability, set or document of this folder ever holds its value.
struct Secret {
  SecretName name;
  static Result<Secret> parse(std::string_view text);
  std::string value_text() const { return name.text(); }
  friend std::strong_ordering operator<=>(const Secret&, const Secret&) = default;
};

// Whether a command may also be given as one string that is split into words.
enum class Shell : std::uint8_t { Refused, Allowed };

// Starting commands through the broker of a Python box. Shell::Allowed implies the plain form.
class Subprocess {
 public:
  static constexpr std::size_t kMaxCommands = 1024;

  // Sorts, drops doubles and refuses an empty list.
  static Result<Subprocess> make(std::vector<CommandName> commands, Shell shell);
  static Result<Subprocess> parse(std::string_view text);  // "git,make"; Shell::Refused
  static Result<Subprocess> parse_with_shell(std::string_view text);

  const std::vector<CommandName>& commands() const { return commands_; }
  Shell shell() const { return shell_; }
  std::string value_text() const;

  friend bool operator==(const Subprocess&, const Subprocess&) = default;
  friend std::strong_ordering operator<=>(const Subprocess&, const Subprocess&) = default;

 private:
  Subprocess(std::vector<CommandName> commands, Shell shell)
      : commands_(std::move(commands)), shell_(shell) {}

  std::vector<CommandName> commands_;
  Shell shell_;
};

// Reading the time.
struct Clock {
  static Result<Clock> parse(std::string_view text);  // takes no value
  std::string value_text() const { return {}; }
  friend std::strong_ordering operator<=>(const Clock&, const Clock&) = default;
};

// Drawing random bytes.
struct Random {
  static Result<Random> parse(std::string_view text);  // takes no value
  std::string value_text() const { return {}; }
  friend std::strong_ordering operator<=>(const Random&, const Random&) = default;
};

// Sending and receiving on a named channel between boxes.
struct Channel {
  ChannelName name;
  static Result<Channel> parse(std::string_view text);
  std::string value_text() const { return name.text(); }
  friend std::strong_ordering operator<=>(const Channel&, const Channel&) = default;
};

// Calling the system calls of a group that ordinary programs do without, so that the filter of a
// box refuses them unless this is granted.
struct Syscalls {
  SyscallGroupName name;
  static Result<Syscalls> parse(std::string_view text);  // "sysv-ipc"
  std::string value_text() const { return name.text(); }
  friend std::strong_ordering operator<=>(const Syscalls&, const Syscalls&) = default;
};

using Capability =
    std::variant<ReadPath, WritePath, ExecPath, ConnectTCP, ListenTCP, ConnectUnix, ResolveName,
                 Import, Env, Secret, Subprocess, Clock, Random, Channel, Syscalls, CpuBudget,
                 MemoryBudget, PidsBudget, WallBudget, DiskBudget, InodeBudget, OutputBudget,
                 OpenFilesBudget, ConnectionsBudget, EgressBytesBudget, ConnectRateBudget>;

// A budget whose kind is known only at run time, and the capability made of one.
struct BudgetTerm {
  BudgetKind kind;
  std::uint64_t amount;
  friend bool operator==(const BudgetTerm&, const BudgetTerm&) = default;
};
std::optional<BudgetTerm> find_budget(const Capability& capability);
Result<Capability> make_budget(BudgetKind kind, std::uint64_t amount);

// What a rule does with the things its capability names.
//   Allow   grants them.
//   Deny    forbids them, whatever any other source grants.
//   Silent  takes back what a broader rule of the same source said, in either direction. People do
//           not write it; it appears where one set was subtracted from another.
enum class Effect : std::uint8_t { Silent, Allow, Deny };

std::string_view to_text(Effect effect);
// How little an effect leaves: Allow 0, Silent 1, Deny 2. Of two that tie, the severer holds.
int severity(Effect effect);

struct Rule {
  Effect effect;
  Capability capability;

  friend bool operator==(const Rule&, const Rule&) = default;
};

}  // namespace glovebox::authority
