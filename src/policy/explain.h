// Why a policy allows or refuses something, and what one policy allows beyond another.
#pragma once

#include "authority/authority_set.h"
#include "authority/capability.h"
#include "policy/compile.h"
#include "policy/diagnostic.h"
#include "policy/policy.h"

#include <optional>
#include <string>
#include <vector>

namespace glovebox::policy {

// The answer to "may it?". The rule is the line of the document that decides, as a rule; there is
// none where the policy is silent, and no place where several lines decide together.
struct Explanation {
  authority::Capability question;
  authority::Effect effect = authority::Effect::Silent;
  std::optional<std::string> rule;
  std::optional<Where> where;
  // What would have to be granted, or stands in the way; empty when it is allowed.
  std::string remedy;
};

Explanation explain(const CompiledPolicy& policy, const authority::Capability& question);

// "read=/srv/x: allowed by 'allow read=/srv' (a.yaml:3:12)\n", or two lines with the remedy.
std::string to_text(const Explanation& explanation);

// What `b` allows that `a` does not. Rules with wildcards are compared as they are written, since
// what they match is not known here; so the difference may name more than it has to, never less.
struct PolicyDifference {
  authority::Shortfall authority;
  std::vector<PathRule> granted;           // grants by wildcard, or beneath one, that a has not
  std::vector<PathRule> no_longer_denied;  // denials of that sort that b has not
  std::vector<std::string> settings;       // "cpus: 2 instead of 1", "waives landlock"

  bool empty() const;
};

PolicyDifference difference(const Policy& a, const Policy& b);
std::string to_text(const PolicyDifference& difference);

}  // namespace glovebox::policy
