// The product's own files, which no box may see, whatever it is handed: state, layers, sockets,
// tokens, settings, and the store of secrets.
//
// A box that could write there would forge a layer whose origin is any directory, and the caller's
// next commit would write where the box wants; one that could read there would see what other boxes
// did, and secrets.
//
// A place is remembered by a descriptor as well as by its name: a box that may write around one can
// move it, and it must not be found elsewhere by the next box.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "plan/spec.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

// What is done about a place where nothing is.
enum class WhenMissing : std::uint8_t {
  Deny,  // its name is denied, so that no box makes something there
  Wait,  // nothing until it exists: a store that its first use makes
  // A private directory is made where a box could make it: only what exists can be covered. For a
  // process that makes one box: such a place is known by its name alone.
  Make,
};

struct HiddenPlace {
  std::string path;
  WhenMissing when_missing = WhenMissing::Deny;
};

// A workspace that has a hidden place somewhere below it, and where the box's changes stay.
enum class Around : std::uint8_t {
  Refused,  // for a service, which has callers that it does not trust
  Covered,  // the hidden place is covered, and its parents are pinned
};

class HiddenPlaces {
 public:
  Result<void> open(std::vector<HiddenPlace> places, Around around);

  // Denies them in a spec that has its workspaces and rules. A place with WhenMissing::Make is
  // denied only where the spec would show it, so that other plans stay as they are; all others
  // always, so that what is added to the spec later does not show them either.
  //
  // Refused: a workspace, or a grant of `handed`, inside of one; a link on the way to one that the
  // box could point elsewhere; with Around::Refused a workspace around one.
  //
  // `shown`: the one path of ours that this box may read, also inside of one. Empty: none.
  Result<void> hide(plan::SandboxSpec& spec, const authority::AuthoritySet& handed,
                    const std::string& shown = {});
  // The same refusal for workspaces that are added later.
  Result<void> check_workspaces(const plan::SandboxSpec& spec);

  // All their paths at the moment: by name, and where what had the name was moved to. From any
  // thread. An error when that cannot be known: then no box can be made.
  Result<std::vector<std::string>> paths();

  // Descriptors of what has or had the name of a place, for all places together. Files of a service
  // are not replaced that often: more means that a box replaces them.
  static constexpr std::size_t kMostHeld = 256;

 private:
  struct Known {
    std::string named;  // as it was given: it may lead over links
    std::string path;   // resolved; as it was given when that is not possible
    WhenMissing when_missing;
    std::optional<Error> problem{};  // why it cannot be resolved
  };
  struct Held {
    std::string name;
    UniqueFd place;
  };
  enum class Found : std::uint8_t { Nothing, Something };

  Result<Found> remember(const std::string& name);
  Result<void> check_apart(const plan::SandboxSpec& spec, const std::string& own) const;

  std::vector<Known> places_;
  Around around_ = Around::Refused;
  std::mutex mutex_;  // of what is below
  std::vector<Held> held_;
};

}  // namespace glovebox::session
