#include "library/to_request.h"

#include "authority/terms.h"

#include <cmath>

namespace glovebox::library {
namespace {

constexpr double kMostCpus = 4096;

WorkspaceMode to_mode(Mode mode) {
  switch (mode) {
    case Mode::ReadOnly: return WorkspaceMode::Read;
    case Mode::ReadWrite: return WorkspaceMode::Write;
    case Mode::Overlay: break;
  }
  return WorkspaceMode::Overlay;
}

Result<void> add_rules(const std::vector<std::string>& terms, authority::Effect effect,
                       std::vector<authority::Rule>& rules) {
  for (const std::string& term : terms) {
    TRY(authority::Capability capability, authority::parse_term(term));
    rules.push_back({effect, std::move(capability)});
  }
  return {};
}

}  // namespace

Result<session::BoxRequest> to_request(const Request& request) {
  session::BoxRequest order;
  order.name = request.name;
  for (const Workspace& workspace : request.workspaces) {
    order.workspaces.push_back({workspace.path, to_mode(workspace.mode)});
  }
  if (!request.policy.empty() && !request.policy_document.empty()) {
    return fail(Code::Invalid, "a policy by name and a document: give one of them");
  }
  order.policy.name = request.policy;
  order.policy.document = request.policy_document;
  std::vector<authority::Rule> rules;
  TRY_VOID(add_rules(request.allow, authority::Effect::Allow, rules));
  TRY_VOID(add_rules(request.deny, authority::Effect::Deny, rules));
  TRY(order.handed, authority::AuthoritySet::from_rules(rules));
  for (const auto& [name, value] : request.env) order.env.push_back({name, value});
  if (!(request.cpus >= 0 && request.cpus <= kMostCpus)) {
    return fail(Code::Invalid, "cpus {}: not a number of processors", request.cpus);
  }
  if (request.cpus > 0) {
    order.cpus_milli = static_cast<std::uint64_t>(std::llround(request.cpus * 1000));
  }
  order.idle_timeout = request.idle_timeout;
  order.prove = request.prove;
  return order;
}

session::RunRequest to_run(const Command& command) {
  session::RunRequest run;
  run.code = command.code;
  run.argv = command.argv;
  for (const auto& [name, value] : command.env) run.env.push_back({name, value});
  run.cwd = command.cwd;
  run.timeout = command.timeout;
  return run;
}

session::CommitRequest to_commit(const Selection& selection) {
  session::CommitRequest request;
  request.selection.only = selection.only;
  request.selection.reject = selection.reject;
  request.selection.accept_paths = selection.accept;
  return request;
}

}  // namespace glovebox::library
