// The policies of a running service, and what a reload changes.
//
// A set of compiled policies is immutable; a reload makes another and swaps the two. Who holds the
// old one keeps it until done, so a request is judged by one set from start to end.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "policy/compile.h"
#include "policy/diagnostic.h"
#include "policy/policy.h"

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::policy {

// A document by the name it goes by in the store.
struct NamedText {
  std::string name;  // "jobs": what requests call it; diagnostics use it as the file
  std::string text;
};

class PolicySet {
 public:
  // The file of that name, or nullptr.
  const PolicyFile* find(std::string_view name) const;
  const std::vector<PolicyFile>& files() const { return files_; }

 private:
  friend class PolicyStore;
  std::vector<PolicyFile> files_;  // sorted by name
};

// What a new policy means for the boxes that run under the old one. A running box never gains
// anything. What the broker and the supervisor decide anew each time (connections, names, ports,
// most budgets) is taken away at once; what was built into the box when it started (paths,
// environment, modules, the sizes of its disks, its tables of open files) stays until it ends.
struct Narrowing {
  // To be united with the authority of a running box: denials of connections and names, and the
  // smaller budgets. Empty when nothing can be taken away at once.
  authority::AuthoritySet cut;
  // One line each, for the report: what is taken away at once, and what holds for new boxes only.
  std::vector<std::string> at_once;
  std::vector<std::string> for_new_boxes;

  friend bool operator==(const Narrowing&, const Narrowing&) = default;
};

// A caller who handed a box grants beside its policy and wants them kept does not unite with `cut`:
// it attenuates the box's authority to what the new policy and those grants allow together.
// Fails only when `cut` would be over the bounds of an AuthoritySet.
Result<Narrowing> narrowing(const Policy& before, const Policy& after);

// What a reload did to one sandbox.
struct PolicyChange {
  enum class Kind : std::uint8_t { Added, Removed, Changed };
  std::string file;
  std::string sandbox;
  Kind kind;
  Narrowing narrowing;  // of a sandbox that is gone: nothing, its boxes run on as they are

  friend bool operator==(const PolicyChange&, const PolicyChange&) = default;
};

// Safe to use from several threads.
class PolicyStore {
 public:
  PolicyStore() : current_(std::make_shared<const PolicySet>()) {}

  std::shared_ptr<const PolicySet> current() const;

  // Compiles all and swaps, or changes nothing and returns what is wrong with any of them. Names
  // must differ.
  Result<std::vector<PolicyChange>, Diagnostics> reload(std::span<const NamedText> documents);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const PolicySet> current_;
};

}  // namespace glovebox::policy
