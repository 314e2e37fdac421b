// From a request to everything that is needed to start its box: policy, authority, directories,
// layers, plan. Every face uses this, so the same request means the same box.
//
// The order is: check the request as a value, look up what it names, and only then make anything
// (directories that are missing, layers). A refusal leaves nothing behind.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "host/facts.h"
#include "plan/launch_plan.h"
#include "policy/policy_store.h"
#include "request/box_request.h"
#include "request/held_layer.h"
#include "request/hidden_places.h"
#include "session/python/python_plan.h"
#include "session/store/session_info.h"
#include "workspace/layer/layer.h"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace glovebox::session {

// Where the layer of a workspace comes from, when it is not made new and empty.
struct LayerSource {
  enum class Kind : std::uint8_t {
    GoOn,   // the layer itself, as its last box left it; no other layer may stand on it
    Stack,  // a fresh one over that layer, which is frozen by it
    Fill,   // a fresh one that `fill` puts something into
  };
  Kind kind = Kind::GoOn;
  std::string id{};  // of the layer, with GoOn and Stack
  std::function<Result<void>(BorrowedFd upper)> fill{};
  std::function<Result<workspace::Base>()> make_base{};  // with Fill: what it counts from
};
// By the path of the workspace.
using LayerSources = std::map<std::string, LayerSource>;

// A file or directory, told from every other that is there at the same time.
struct FileMark {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileMark&, const FileMark&) = default;
};

// The places of a request that was prepared before, by their resolved paths, as they were then. A
// place that is not among them is known by its path alone.
//
// Between two boxes of one session another box may have put a link where a directory was,
// beside or above it. What a session was once handed must not come to mean something else by that.
using KnownPlaces = std::map<std::string, FileMark>;

// Where among the policies of the service one was found.
struct PolicyOrigin {
  std::string file;
  std::string sandbox;
  friend bool operator==(const PolicyOrigin&, const PolicyOrigin&) = default;
};

struct Prepared {
  plan::LaunchPlan plan;
  BoxRequest effective;  // defaults filled in, paths resolved, values of variables left out
  std::vector<WorkspaceInfo> workspaces;
  std::vector<HeldLayer> layers;  // of the workspaces that have one, in their order
  std::string home;               // where runs start
  KnownPlaces places;             // workspaces and binds
  // Of a policy of the service: where it is from, and the set it was found in. A reload narrows
  // boxes with such a one.
  std::optional<PolicyOrigin> origin;
  std::shared_ptr<const policy::PolicySet> policies;
  std::optional<PythonPlan> python;
};

enum class PolicyFiles : std::uint8_t {
  Refused,  // the caller is not who owns this host's files
  Allowed,
};

// Where the values of variables come from that an authority names without one.
enum class EnvSource : std::uint8_t {
  Request,  // from the request alone
  Process,  // else from this process, which is the caller's
};

struct PreparerSettings {
  // Directory of the layers. Made when the first is needed; empty: there can be none.
  std::string layer_root;
  // What no box may see, whatever it is handed: the product's own state, sockets and tokens.
  std::vector<HiddenPlace> hidden;
  Around around = Around::Refused;
  // The directory of the secrets that boxes can be handed by name (host/secrets.h). It has to be
  // hidden too. Empty: there are none.
  std::string secrets;
  std::shared_ptr<policy::PolicyStore> policies;  // may be empty
  PolicyFiles policy_files = PolicyFiles::Refused;
  std::chrono::milliseconds default_idle = kDefaultIdle;
  std::string probe;  // the program glovebox-probe, for sessions that are to be proved
  // The directory of the Python host's extension. Empty: there are no Python sessions here.
  std::string python_extension;
  // Where interpreters beside the system's may be. Empty: everywhere.
  std::vector<std::string> interpreter_roots;
  EnvSource env_source = EnvSource::Request;
};

// Safe to use from several threads at once. Facts of the host and compiled templates are read once
// and used again.
class Preparer {
 public:
  // How long facts of the host are believed.
  static constexpr std::chrono::seconds kFactsLife{5};

  static Result<std::unique_ptr<Preparer>> open(PreparerSettings settings);

  // Makes what is missing, and the plan. With `known` the request is one that was prepared before:
  // its paths are resolved, and one that leads elsewhere by now, or is another directory, is
  // Code::Denied.
  Result<Prepared> prepare(const BoxRequest& request, const LayerSources& layers = {},
                           const std::optional<KnownPlaces>& known = {});
  // The plan, with something that stands for the layers, and all the refusals of prepare() that
  // need nothing to be made.
  Result<plan::LaunchPlan> explain(const BoxRequest& request,
                                   const std::optional<KnownPlaces>& known = {});
  // Which part of a request that was refused is to blame by itself.
  RequestFault find_fault(const BoxRequest& request);
  // What is known of the host is read again, by the next who needs it: something was not as
  // planned.
  void forget_facts();

  // The directory of the layers, made and opened by the first call.
  Result<std::shared_ptr<const workspace::LayerRoot>> layer_root();
  // The same after it was opened.
  const workspace::LayerRoot& layers() const { return *layers_; }
  // The policy of a choice, written out as a document that means the same; empty: none was chosen.
  Result<std::string> policy_document(const PolicyChoice& choice);
  Result<host::HostFacts> facts();

 private:
  explicit Preparer(PreparerSettings settings) : settings_(std::move(settings)) {}

  struct Draft;
  Result<Draft> draft(const BoxRequest& request, const std::optional<KnownPlaces>& known);
  Result<void> apply_policy(Draft& draft);
  Result<policy::CompiledPolicy> find_policy(Draft& draft);
  Result<policy::CompiledPolicy> find_template(const std::string& name);
  Result<void> add_authority(Draft& draft);
  Result<void> add_secrets(Draft& draft) const;
  Result<void> add_places(Draft& draft);
  Result<void> add_workspace(Draft& draft, WorkspaceRequest& asked);
  Result<void> add_bind(Draft& draft, BindRequest& asked);
  Result<void> add_probe(Draft& draft);
  Result<void> add_python(Draft& draft);
  Result<void> add_caller_env(Draft& draft) const;
  Result<plan::SandboxSpec> with_some_layers(plan::SandboxSpec spec);
  Result<std::vector<HeldLayer>> make_layers(Draft& draft, const LayerSources& sources);
  Result<void> check_interpreter_place(const std::string& path) const;
  Result<void> make_directories(Draft& draft);

  PreparerSettings settings_;
  HiddenPlaces hidden_;
  std::shared_ptr<const workspace::LayerRoot> layers_;
  std::mutex mutex_;  // of what is below
  std::optional<host::HostFacts> facts_;
  std::chrono::steady_clock::time_point facts_read_;
  std::map<std::string, policy::CompiledPolicy> templates_;
};

}  // namespace glovebox::session
