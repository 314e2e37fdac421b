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
#include "mcp/profile.h"
#include "session/request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::mcp {

// What must be known of the host, as an interface: tests bring a host of their own.
class HostView {
 public:
  enum class Kind : std::uint8_t { Directory, Other };

  virtual ~HostView() = default;
  // Names of the directories (not of links to some) in a directory; none when it cannot be read.
  virtual std::vector<std::string> directories(const std::string& path) const = 0;
  // Names at the top that every box has already: usr, etc, bin, ...
  virtual std::vector<std::string> system() const = 0;
  // What a path leads to, links followed. Nothing: it is not there.
  virtual std::optional<Kind> look_at(const std::string& path) const = 0;
  // Whether another box holds the name (placeholders.h): it counts as missing.
  virtual bool is_placeholder(const std::string& path) const = 0;
  // The path without links, as far as it exists.
  virtual std::string resolve(const std::string& path) const = 0;
  // What a deny glob matches.
  virtual Result<std::vector<std::string>> matches(const std::string& glob) const = 0;
  virtual std::string home() const = 0;  // the caller's; may be empty
  // A variable of the caller's; empty when it is not set.
  virtual std::string variable(std::string_view name) const = 0;
};

struct BoxOrder {
  session::SessionRequest request;
  // Directories to be made before the box: writable ones that are not there.
  std::vector<std::string> missing_roots;
  // Names that the box must not create and that are not there (placeholders.h).
  std::vector<std::string> held_names;
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

}  // namespace glovebox::mcp
