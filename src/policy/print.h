// A policy in its normal form, for people and for files.
//
// What to_yaml() and to_json() write compiles back to an equal policy, for every policy whose name
// and description a document can hold. Examples and inheritance are gone: a normal form says what
// holds, not how it was put together.
#pragma once

#include "base/result.h"
#include "policy/policy.h"

#include <string>

namespace glovebox::policy {

// A document with this policy as its one sandbox, flat if it has no name.
std::string to_yaml(const Policy& policy);
std::string to_json(const Policy& policy);

// One rule a line, in the words of the command line, then the settings:
//   allow read=/srv/data
//   deny read=/srv/data/*.key
//   memory=256MiB
//   backend=process
std::string to_text(const Policy& policy);

// "sha256:" and the hash of the normal form in hex: equal exactly for policies that allow the same.
// Name and description have no part in it. Fails only for a set too large to be written down.
Result<std::string> digest(const Policy& policy);

}  // namespace glovebox::policy
