// A LaunchPlan is everything that will be done to start one box, as plain data.
//
// Planning decides; the launcher and the code between clone and exec obey. A plan can be printed
// (`glovebox explain`), compared in tests, and sent as bytes (flat_plan.h).
//
// Three lists of steps, in the order in which they run:
//   early by the box's first process, in its own namespaces: what everything else rests on.
//   base  the read-only view of the system. A serving launcher builds it once, in a mount namespace
//         of its own, and keeps it while plans ask for the same; otherwise the box's first process
//         builds it.
//   box   by the box's first process: everything that is this box's alone.
#pragma once

#include "host/facts.h"
#include "plan/spec.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <linux/filter.h>

namespace glovebox::plan {

// docs/reference/launch-steps.md says for each why it stands where it stands.
enum class Op : std::uint32_t {
  // The base view.
  MountRoot = 1,  // an empty tmpfs becomes the root under construction
  AttachHost,     // text: host path, other: where; a: MOUNT_ATTR_* set recursively
  SealRoot,       // the root under construction becomes read-only
  PivotRoot,      // it becomes the root; the host's tree begins to go
  // Both lists; a: Place, b: mode, text: path there.
  MakeDirectory,
  MakeFile,
  MakeLink,   // other: target
  WriteFile,  // other: contents
  // The box.
  BeginNetwork,      // a: 1 to bring loopback up; goes on beside the steps that follow
  MapIdentity,       // a: uid inside, b: gid inside
  EnterNetwork,      // waits for it and goes in
  OpenResolver,      // sockets inside that the broker answers questions for names on
  MountScratch,      // a: bytes, b: inodes, text: where; one private tmpfs for all that is writable
  AttachScratch,     // text: directory of it, other: where
  MountProc,         // a fresh proc for the pid namespace
  MountTerminals,    // a devpts of the box's own
  AttachCover,       // text, other: as above; a: device, b: inode of what it hides (0: not known)
  AttachTree,        // a: index into trees, b: MOUNT_ATTR_* set recursively, text: where
  PinDirectory,      // text: a directory of an attached tree, which cannot be renamed from then on
  MountOverlay,      // a: the tree below; b, bit 0: 1 if a + 1 is the layer, 0 if that is the
                     // private directory's own; b >> 1: how many frozen layers follow, the topmost
                     // first; text: where, other: private directory
  HandOutLayer,      // text: private directory of an overlay, other: where that is; the supervisor
                     // gets a descriptor of what is written there
  SetHostname,       // text
  ChangeDirectory,   // text
  SetLimit,          // a: RLIMIT_*, b: soft and hard value
  CapLimit,          // a: RLIMIT_*, b: hard value; a soft value below it stays
  OpenTerminal,      // a: rows, b: columns
  LeaveHost,         // waits until the host's tree is gone
  DropCapabilities,  // every set, and securebits locked
  NoNewPrivileges,
  LandlockBegin,  // a: file rights handled, b: net rights | scopes << 32
  LandlockAllow,  // a: rights, text: path below which they hold
  LandlockEnforce,
  InstallFilter,  // a: 1 for a listener, which the supervisor gets
  EnterCgroups,   // a cgroup namespace rooted at the box's cgroup, which was made meanwhile
  AwaitClock,     // a: ns since 1970 that the coarse clock must be past
  CloseFiles,     // all but 0, 1, 2, the status socket and the cgroups
  VerifyWall,     // a: Wall; looks whether it stands
  CoverProc,      // text: files of /proc that the box does not see, other: directories; by spaces
  CapNamespace,   // text: a count of the box's user namespace (/proc/sys/user), a: its limit
};
inline constexpr std::uint32_t kLastOp = static_cast<std::uint32_t>(Op::CapNamespace);

// What VerifyWall looks at. What one step does alone it reads back itself.
enum class Wall : std::uint64_t {
  Namespaces = 1,  // none is the launcher's
  Root,            // the box's own, and nothing of the host's tree above it
  Privileges,      // no capability, none to come, securebits locked
  Filter,          // it answers
};
inline constexpr std::uint64_t kLastWall = static_cast<std::uint64_t>(Wall::Filter);
std::string_view to_text(Wall wall);

// What CoverProc covers with, in the private tmpfs: an empty file and an empty directory.
inline constexpr const char* kEmptyFile = "nothing/file";
inline constexpr const char* kEmptyDirectory = "nothing/directory";

// Where MakeDirectory, MakeFile and MakeLink act.
enum class Place : std::uint64_t { Root, Scratch };

struct Step {
  Op op;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::string text{};
  std::string other{};
  friend bool operator==(const Step&, const Step&) = default;
};

// What may be done with a tree of the host inside the box.
struct Rights {
  bool read = false;
  bool write = false;    // never without `read`
  bool exec = false;     // never without `read`; execute programs and map libraries
  bool connect = false;  // to a socket

  bool none() const { return !read && !write && !exec && !connect; }
  bool within(const Rights& other) const {
    return (!read || other.read) && (!write || other.write) && (!exec || other.exec) &&
           (!connect || other.connect);
  }
  friend bool operator==(const Rights&, const Rights&) = default;
};
// The MOUNT_ATTR_* that a tree with these rights is mounted with.
std::uint64_t mount_attributes(const Rights& rights);

// As root, whether a tree's owner is shown as the box's user, so that the owner's files are the
// box's own inside and stay the owner's outside.
enum class Ownership : std::uint8_t { Mapped, Kept };

// Whether a tree is a part of the host's, or what is in a filesystem image.
enum class TreeKind : std::uint8_t { Host, Image };

// A tree that the launcher opens outside, for AttachTree.
struct Tree {
  host::PathFacts source;
  Rights rights;
  Ownership ownership = Ownership::Mapped;
  TreeKind kind = TreeKind::Host;
  friend bool operator==(const Tree&, const Tree&) = default;
};

struct Controller {
  std::string name;    // "memory"
  std::string parent;  // the directory in which the box's cgroup is made
  friend bool operator==(const Controller&, const Controller&) = default;
};

struct CgroupPlan {
  host::CgroupVersion version = host::CgroupVersion::None;
  std::vector<Controller> controllers;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> pids;  // of the command and what it starts
  std::uint64_t own_pids = 0;         // of the box itself, which the cgroup counts too
  std::optional<std::uint64_t> cpus_milli;
  friend bool operator==(const CgroupPlan&, const CgroupPlan&) = default;
};

// What the supervisor watches while the box runs.
struct Watch {
  std::optional<std::chrono::nanoseconds> wall;
  std::optional<std::chrono::nanoseconds> cpu_time;
  std::optional<std::uint64_t> output_bytes;
  friend bool operator==(const Watch&, const Watch&) = default;
};

// One line of the report: a protection, and what enforces it here.
struct Guarantee {
  std::string name;
  std::string by;
  friend bool operator==(const Guarantee&, const Guarantee&) = default;
};

struct LaunchPlan {
  host::Tier tier = host::Tier::User;
  uid_t uid = 0;  // inside
  gid_t gid = 0;
  std::vector<Step> early;
  std::vector<Step> base;
  std::vector<Step> box;
  std::vector<Tree> trees;
  CgroupPlan cgroup;
  Watch watch;
  std::vector<sock_filter> filter;
  std::optional<NetworkPlan> network;  // what the connect broker does for this box
  Resident resident = Resident::Command;
  std::vector<std::string> argv;
  std::vector<std::string> envp;        // NAME=VALUE
  std::vector<std::string> candidates;  // files to try to execute, in order
  bool has_terminal = false;
  std::vector<Guarantee> guarantees;
  std::vector<Guarantee> not_enforced;  // what a box has by default and not here, and why
  std::vector<Guarantee> terms;         // the rules of the authority, and what enforces each
  std::vector<std::string> waived;
  std::optional<PolicyMark> policy;
};

// The most layers that one box hands out: those with a budget of their own.
inline constexpr std::size_t kMaxHandedLayers = 16;
// Where in the box the layers that it hands out are, in the order in which they are handed out.
std::vector<std::string> handed_layers(const LaunchPlan& plan);

std::string_view to_text(Op op);
// "attach      /usr at /usr (ro,nosuid,nodev)".
std::string to_text(const Step& step);
// The whole plan, step by step, as `glovebox explain` prints it.
std::string to_text(const LaunchPlan& plan);

// "ro,nosuid,nodev" for MOUNT_ATTR_* bits.
std::string mount_attributes_to_text(std::uint64_t attributes);

}  // namespace glovebox::plan
