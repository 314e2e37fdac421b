// From a profile to what a session is asked for: rules of an authority, the directory to start in,
// and the names that must be held on the host while the box lives.
//
// "Everything" is spelled out here, because a box is never handed "/" itself. The system's
// directories are in every box, read-only. Of the others each is granted by name, except those that
// a box has of its own (/proc, /dev, /sys, /run, /tmp) and the parts of /var that belong to running
// services. So the sockets of /run and /tmp (D-Bus, Docker, agents of SSH, tmux, X11) are out of
// reach in every mode. A socket elsewhere in a readable tree can be connected to: those of GnuPG,
// Docker and SSH below the home directory are covered, and so is one that SSH_AUTH_SOCK names.
#pragma once

#include "base/result.h"
#include "mcp/profile/host_view.h"
#include "mcp/profile/profile.h"
#include "request/box_request.h"

#include <string>
#include <vector>

namespace glovebox::mcp {

struct BoxOrder {
  session::BoxRequest request;
  // Directories to be made before the box: writable ones that are not there.
  std::vector<std::string> missing_roots;
  // Names that the box must not create and that are not there (placeholders.h).
  std::vector<std::string> held_names;
  // Places in which the box has fewer rights than around them. A mount is what takes the rights
  // away, and it lies on what is at that name now: when the host puts something else there, it is
  // not covered (see is_still_covered).
  std::vector<std::string> covered;
  // The part of the authority that is about the network, also in the request.
  authority::AuthoritySet network;
};

// Terms that were added on the command line with --allow and --deny.
struct ExtraTerms {
  std::vector<authority::Rule> rules;
  session::PolicyChoice policy;  // of --policy
};

// Code::Unsupported for what cannot be enforced, with the path in the sentence.
Result<BoxOrder> make_order(const Profile& profile, const ExtraTerms& extra, const HostView& host);

// What lay at the covered places when the box was made.
std::vector<CoveredPlace> look_at_covered(const BoxOrder& order, const HostView& host);
// Whether a box that was made with `covered` still has all that its profile asks for now: nothing
// new matches a denied pattern, and nothing that is denied or protected was replaced. An error:
// what the profile asks for cannot be enforced any more.
Result<bool> is_still_covered(const Profile& profile, const ExtraTerms& extra, const HostView& host,
                              const std::vector<CoveredPlace>& covered);

}  // namespace glovebox::mcp
