// An AuthoritySet in the terms of the process backend: trees to show, places to cover, variables,
// limits. Pure, as all planning.
//
// Every rule of the set becomes something that the kernel enforces, named in Lowered::terms, or the
// whole request is refused with a sentence that names the rule. No rule is dropped in silence.
//
// Files. The box's tree is made of regions: a place, and what may be done there and below, until
// the next region begins. The system's directories are there without a rule; everything else is
// there only where a rule grants it. What may be read may be executed, unless a rule denies that:
// a process that reads a program can run a copy of it. Where a rule takes rights away
// inside a region, the same place is mounted again with fewer, or covered by an empty one. So
// "deny inside allow" and "allow inside deny" both work to any depth, and nothing is created on the
// host.
//
// A mount lies on a directory, and a rule is about a name. In a tree of the host that the box may
// write it could move the one away from the other: rename a directory above the denied place, and
// make the name anew. So every directory between such a tree's top and the place is pinned: bound
// onto itself, because the kernel renames no mount point. An overlay needs no pins: the host's
// names are not changed through it.
//
// A denial covers what exists when the box starts. Where the box could create the denied name
// itself (it does not exist, in a place it may write) the rule cannot be enforced, so it is
// refused.
//
// Sockets. A directory of the host that is shown to the box does not carry its Unix sockets along:
// the connect broker refuses them (network_plan.h), unless `unix=` grants them. A socket that is
// granted is a region of its own, and so is a directory whose sockets are granted: the broker tells
// by the mount that a socket is found on.
#pragma once

#include "authority/capability.h"
#include "base/result.h"
#include "host/facts.h"
#include "plan/launch_plan.h"
#include "plan/spec.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::plan {

inline constexpr std::size_t kMaxRegions = 2048;
// Where a box may do everything: its own, empty at the start.
inline constexpr std::array<std::string_view, 3> kPrivateTrees{"/tmp", "/run", "/home/box"};

// An overlay has the tree below, and on top the `upper` of a layer's directory or image, or one in
// the box's private memory, which the supervisor keeps or which is gone with the box.
enum class Upper : std::uint8_t { None, Layer, Image, Handed, Memory };

// A place where rights change. The rights hold there and below.
struct Region {
  host::PathFacts at;
  Rights rights;
  // Inside the system's own tree, or taken from it: owners are shown as they are. Elsewhere the
  // owner of the place is shown as the box's user.
  Ownership ownership = Ownership::Mapped;
  // What is shown there, when it is not what the host has at that path.
  std::optional<host::PathFacts> source{};
  Upper upper = Upper::None;
  std::optional<host::PathFacts> layer{};  // with Upper::Layer and Upper::Image
  std::vector<host::PathFacts> frozen{};   // below it, the topmost first
  // Directories above it that are pinned before it is attached, the topmost first. One that lies
  // above several regions is named by the first of them alone.
  std::vector<std::string> pinned{};
  friend bool operator==(const Region&, const Region&) = default;
};

// Whether a path lies in the system's own directories, which every box sees.
bool is_system(const host::HostFacts& facts, std::string_view path);

// Where a box finds a secret: /run/secrets/NAME.
std::string secret_path(std::string_view name);

// Limits that were asked for. What is not set gets the default that the host can enforce.
struct Limits {
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> pids;
  std::optional<std::uint64_t> cpus_milli;
  std::optional<std::chrono::nanoseconds> cpu_time;
  std::optional<std::chrono::nanoseconds> wall;
  std::optional<std::uint64_t> output_bytes;
  std::optional<std::uint64_t> open_files;
  std::optional<std::uint64_t> disk_bytes;  // the private /tmp, /run, /home and layers together
  std::optional<std::uint64_t> inodes;      // in the same
  friend bool operator==(const Limits&, const Limits&) = default;
};

struct Lowered {
  std::vector<Region> regions;  // a place before those below it
  std::vector<EnvEntry> env;
  Limits limits;
  std::optional<NetworkPlan> network;
  std::vector<std::string> syscall_groups;  // that the filter lets through
  std::vector<Guarantee> terms;             // "allow read=/srv", and what enforces it
};

Result<Lowered> lower(const SandboxSpec& spec, const host::HostFacts& facts);

// The part about files (`rules` are the authority's), and what enforces one of its rules
// afterwards.
Result<std::vector<Region>> lower_files(const SandboxSpec& spec,
                                        const std::vector<authority::Rule>& rules,
                                        const host::HostFacts& facts);
std::string file_rule_enforcement(const authority::Rule& rule, const std::vector<Region>& regions,
                                  const host::HostFacts& facts);

}  // namespace glovebox::plan
