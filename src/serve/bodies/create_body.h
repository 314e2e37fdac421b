// A request for a session, from its JSON.
//
// Everything that can be said without looking at the host is said here, before anything is made:
// the types, the names of modes and profiles, what excludes what. What needs the host (whether a
// path is there and where it leads) is in host_rules.h.
#pragma once

#include "request/box_request.h"
#include "serve/bodies/json_body.h"

#include <boost/json/value.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace glovebox::serve {

// Whether /tmp is the session's own.
enum class Profile : std::uint8_t { Strict, Balanced };
std::string_view to_text(Profile profile);

// Which variables of the service's own environment a session sees.
struct EnvPassthrough {
  enum class Mode : std::uint8_t { Deny, Allow };
  Mode mode = Mode::Deny;
  std::vector<std::string> keys;
};
std::string_view to_text(EnvPassthrough::Mode mode);

struct CreateOrder {
  session::BoxRequest session;
  Profile profile = Profile::Strict;
  EnvPassthrough env;
  std::vector<std::string> extra_writable;
  std::string uid_mode = "setpriv";  // both words mean the same here: ids as the box sees them
  // The workspaces where their paths lead, as apply_host_rules() found and checked them.
  std::vector<std::string> resolved_workspaces;
};

// What `share_net` hands in: connections to anything public, through the broker. A box never shares
// its host's network; loopback, link-local and private addresses stay out of reach.
authority::AuthoritySet public_network();
bool shares_network(const authority::AuthoritySet& handed);

Result<CreateOrder, ApiError> read_create_order(const boost::json::value& body, Unknown unknown);

// The members `capabilities` and `limits`, into `order.session`.
void read_authority(ObjectReader& reader, CreateOrder& order, BodyProblems& problems,
                    Unknown unknown);

// Labels that are the service's own and not shown: what of an order a session cannot hold itself.
inline constexpr std::string_view kOwnLabels = "execd.";
using session::kOwnerLabel;
// Followed by the number of a workspace: the path it was asked for by, when that leads elsewhere.
inline constexpr std::string_view kAskedPathLabel = "execd.asked_path.";
void hide_in_labels(const CreateOrder& order, std::string_view owner,
                    std::map<std::string, std::string>& labels);

// The variables of `environment` (NAME=value) that the rules let through, without those that only
// make sense outside the box and without the service's own secrets.
std::vector<plan::EnvEntry> passed_environment(const EnvPassthrough& rules,
                                               const std::vector<std::string>& environment,
                                               const std::vector<std::string>& secrets);

}  // namespace glovebox::serve
