// The policy of a request.
#include "host/resolve_authority.h"
#include "policy/disk_lister.h"
#include "policy/expand.h"
#include "policy/load.h"
#include "policy/print.h"
#include "policy/templates.h"
#include "session/prepare/prepare_draft.h"

#include <algorithm>

namespace glovebox::session {
namespace {

constexpr const char* kInline = "(inline)";

Error one_error(const policy::Diagnostics& problems) {
  std::string text = policy::to_text(problems);
  while (text.ends_with('\n')) text.pop_back();
  return Error{Code::Invalid, 0, fmt::format("policy: {}", text)};
}

// A Result with diagnostics as one with an error.
template <class T>
Result<T> told(Result<T, policy::Diagnostics> result) {
  if (!result) return unexpected(one_error(result.error()));
  return *std::move(result);
}

Result<authority::AuthoritySet> expanded(const policy::Policy& chosen) {
  if (!chosen.has_patterns()) return chosen.authority;
  TRY(policy::DiskLister lister, policy::DiskLister::open());
  return policy::expand_patterns(chosen, lister);
}

// Another box may have put a link where a path of the policy was. Of a request that was
// prepared before, each still means itself, or leads where it led then.
Result<void> check_known_links(const PolicyChoice& choice, const host::ResolvedAuthority& found) {
  for (const auto& [path, real] : found.links) {
    const auto known = choice.links.find(path);
    if (known != choice.links.end() && known->second == real) continue;
    return fail(Code::Denied, "{}: it leads to {} now, which is not what the policy granted", path,
                real);
  }
  return {};
}

}  // namespace

Result<policy::CompiledPolicy> Preparer::find_template(const std::string& name) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = templates_.find(name); found != templates_.end()) return found->second;
  }
  TRY(policy::CompiledPolicy compiled, told(policy::load_policy(name)));
  const std::scoped_lock lock(mutex_);
  templates_.emplace(name, compiled);
  return compiled;
}

Result<policy::CompiledPolicy> Preparer::find_policy(Draft& draft) {
  const PolicyChoice& choice = draft.asked.policy;
  if (!choice.document.empty()) {
    TRY(const policy::PolicyFile file, told(policy::compile(choice.document, kInline)));
    return told(policy::select_sandbox(file, choice.sandbox));
  }
  const policy::Reference reference = policy::parse_reference(choice.name);
  if (settings_.policies) {
    const auto set = settings_.policies->current();
    if (const policy::PolicyFile* file = set->find(reference.source)) {
      TRY(policy::CompiledPolicy found, told(policy::select_sandbox(*file, reference.sandbox)));
      draft.origin = PolicyOrigin{reference.source, found.policy.name};
      draft.policies = set;
      return found;
    }
  }
  if (reference.kind == policy::Reference::Kind::Template) {
    const bool is_known = policy::find_template(reference.source) != nullptr;
    if (!is_known && settings_.policy_files == PolicyFiles::Refused) {
      return fail(Code::NotFound, "there is no policy '{}'", reference.source);
    }
    return find_template(choice.name);
  }
  if (settings_.policy_files == PolicyFiles::Refused) {
    return fail(Code::Denied, "a policy is named or written out here, never a file");
  }
  return told(policy::load_policy(choice.name));
}

Result<std::string> Preparer::policy_document(const PolicyChoice& choice) {
  if (!choice.document.empty()) return choice.document;
  if (choice.name.empty()) return std::string();
  Draft draft;
  draft.asked.policy = choice;
  TRY(const policy::CompiledPolicy compiled, find_policy(draft));
  return policy::to_yaml(compiled.policy);
}

Result<void> Preparer::apply_policy(Draft& draft) {
  const PolicyChoice& choice = draft.asked.policy;
  if (choice.name.empty() && choice.document.empty()) return {};
  TRY(const policy::CompiledPolicy compiled, find_policy(draft));
  const policy::Policy& chosen = compiled.policy;
  TRY(const std::string digest, policy::digest(chosen));
  if (!choice.if_digest.empty() && choice.if_digest != digest) {
    return fail(Code::Denied, "if_policy {}: the policy is {}", choice.if_digest, digest);
  }
  plan::SandboxSpec& spec = draft.spec;
  if (chosen.backend) {
    if (draft.asked.backend && *draft.asked.backend != *chosen.backend) {
      return fail(Code::Denied, "backend {}: the policy asks for backend {}",
                  to_text(*draft.asked.backend), to_text(*chosen.backend));
    }
    spec.backend = *chosen.backend;
  }
  if (chosen.cpus_milli) {
    spec.cpus_milli = std::min(spec.cpus_milli.value_or(*chosen.cpus_milli), *chosen.cpus_milli);
  }
  spec.waived.insert(chosen.waived.begin(), chosen.waived.end());
  draft.policy_mode = chosen.workspace;
  TRY(const authority::AuthoritySet set, expanded(chosen));
  TRY(host::ResolvedAuthority resolved, host::resolve_paths(set));
  if (draft.known) {
    TRY_VOID(check_known_links(choice, resolved));
  } else {
    draft.asked.policy.links = std::move(resolved.links);
  }
  spec.authority = std::move(resolved.set);
  spec.paths = std::move(resolved.paths);
  spec.policy = plan::PolicyMark{choice.name.empty() ? kInline : choice.name, digest};
  return {};
}

RequestFault Preparer::find_fault(const BoxRequest& request) {
  Draft draft;
  draft.asked = request;
  draft.spec.backend = request.backend.value_or(Backend::Process);
  if (!apply_policy(draft)) return RequestFault::Policy;
  const bool is_missing = draft.spec.backend == Backend::Microvm ||
                          (draft.spec.backend == Backend::Cell && !request.python.has_value());
  return is_missing ? RequestFault::Backend : RequestFault::None;
}

}  // namespace glovebox::session
