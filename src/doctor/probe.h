// What this host can enforce for this caller, found out by trying.
//
// `glovebox doctor` prints this. Each feature is tried in a forked child, with the calls and flags
// that a real launch uses; a version number, a configuration file or a sysctl never decides a
// verdict. They are read for one thing alone: to choose the line that fixes what is missing
// (probe_remedy.h).
//
// A trial changes nothing outside its child: what it mounts lies in a mount namespace of its own,
// the cgroups that it makes are removed before it is over, and whatever it started is killed with
// it.
//
// HostFacts (facts.h) are the other half: cheap, read by every run, and not proof of anything.
#pragma once

#include "base/result.h"
#include "host/facts.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace glovebox::host {

enum class FeatureState : std::uint8_t { Ok, Missing, NotApplicable };
// "ok", "missing", "not-applicable".
std::string_view to_text(FeatureState state);

// How features are listed for people.
enum class FeatureGroup : std::uint8_t { EveryBox, Limits, Workspaces, Network, OtherBackends };
// "every box needs", "limits", ...
std::string_view to_text(FeatureGroup group);

enum class Requirement : std::uint8_t {
  EveryBox,  // without it `glovebox run -- true` fails on this host
  Optional,  // without it what `needed_for` names is refused
};

struct Feature {
  std::string id;  // stable: scripts may look for it
  FeatureGroup group = FeatureGroup::EveryBox;
  Requirement requirement = Requirement::Optional;
  FeatureState state = FeatureState::Missing;
  std::string detail;      // what was seen
  std::string needed_for;  // "every box", "--memory", ...
  std::string fix;         // when missing: one line per way to fix it; else empty

  friend bool operator==(const Feature&, const Feature&) = default;
};

struct HostReport {
  Tier tier = Tier::User;
  std::vector<Feature> features;
};

// Whether a plain `glovebox run -- true` can work: nothing that every box needs is missing.
bool can_run_boxes(const HostReport& report);

struct ProbeOptions {
  uid_t box_uid = 1'900'000'000;                    // as root: an id such as boxes get
  std::string current_directory;                    // whose filesystem is tried for workspaces
  std::string program = "/usr/local/bin/glovebox";  // for remedies that name this program
  std::chrono::milliseconds timeout{5000};          // for each feature
};

// Tries every feature. The calling process must be single-threaded: trials run in forks of it.
HostReport probe_host(const ProbeOptions& options);

// Tries one; Code::NotFound when there is no feature of that name.
Result<Feature> probe_feature(std::string_view id, const ProbeOptions& options);

}  // namespace glovebox::host
