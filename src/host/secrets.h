// Secrets that boxes can be handed: files in one directory of the caller's, a secret each.
//
// A secret is named by a capability (Secret) and never written into a policy, a plan or a report.
// In a box that holds it, it is a file that can only be read, /run/secrets/NAME.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "host/path_facts.h"

#include <map>
#include <string>

namespace glovebox::host {

inline constexpr std::string_view kSecretsInside = "/run/secrets";

// The secrets that a set allows, by their names. One that is not there, and a directory or file
// that another user than its owner could read or change, is refused.
Result<std::map<std::string, PathFacts>> find_secrets(const authority::AuthoritySet& set,
                                                      const std::string& directory);

}  // namespace glovebox::host
