// The paths that an authority names, looked up on this host.
//
// A set is text: it does not know that /srv/current is a link to /srv/v7. Planning and the kernel
// see real places, so the rules are moved to them first. Each source is resolved on its own, before
// sources are united: else a grant that is handed in on a link would reopen what a policy denies
// where the link leads.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "host/path_facts.h"

#include <map>
#include <string>

namespace glovebox::host {

struct ResolvedAuthority {
  authority::AuthoritySet set;
  std::map<std::string, PathFacts> paths;  // what exists of the paths it names
  // Those that are or pass a link, as they were named, and where they lead.
  std::map<std::string, std::string> links;
};

// Two rules that turn out to be about one place tie, so the denial holds. A path that does not
// exist is resolved as far as it does. Of the paths that the caller may not look up no more is
// known than of those that do not exist; a box has no more rights than its caller.
Result<ResolvedAuthority> resolve_paths(const authority::AuthoritySet& set);

// A path of which the last parts may be missing: links resolved as far as there are any.
Result<std::string> resolve_existing_part(const std::string& path);

}  // namespace glovebox::host
