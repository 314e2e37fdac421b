// Where a launch stands when it uses a feature: as the launcher, or as the first process of a box.
// Trials go there the way a launch does, so that they meet what a launch would meet.
#pragma once

#include "doctor/probe_child.h"
#include "host/facts.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <sys/types.h>

namespace glovebox::host::probe {

// What every trial may look at.
struct Stage {
  HostFacts facts;
  uid_t box_uid = 0;  // root tier
  std::string current_directory;
  std::string cgroup_name;  // of the cgroups that trials make: names this process as the owner

  bool is_root() const { return facts.tier == Tier::Root; }
};

// Becomes what the launcher is before it touches mounts: as root without groups and with ids that
// can change back and forth, as a user in a user namespace of its own. Nothing, or the failure.
std::optional<Reply> take_launcher_identity(const Stage& stage);

// The above, and a mount namespace cut off from the host.
std::optional<Reply> stand_as_launcher(const Stage& stage);

// Runs `body` as the first process of a box would run: born by clone3 with the launcher's flags
// into a user namespace and the `namespaces` (CLONE_NEW*) named, with its ids mapped and taken. The
// caller stands as the launcher and, as root, has the box's uid afterwards: a trial ends with this.
Reply in_box(const Stage& stage, std::uint64_t namespaces, const Body& body);

// "setgroups", "uid_map" and "gid_map" of the calling process: one id each.
bool write_id_maps(uid_t inside_uid, uid_t outside_uid, gid_t inside_gid, gid_t outside_gid);

// Takes the box's ids and can go back, as the launcher does around each clone.
bool become_box_uid(uid_t uid);
bool become_root_again();

// All five capability sets emptied, as for a box's command.
bool drop_capabilities();

}  // namespace glovebox::host::probe
