// From a request to everything that is needed to start its box: policy, authority, directories,
// layers, plan. Every face uses this, so a session means the same whoever asked for it.
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
    GoOn,   // the layer itself, as its last box left it; nobody else may stand on it
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
// Between two boxes of one session somebody else's box may have put a link where a directory was,
// beside or above it. What a session was once handed must not come to mean something else by that.
using KnownPlaces = std::map<std::string, FileMark>;

// What becomes of a layer that was prepared for a box when there is no such box after all.
enum class IfUnused : std::uint8_t { Remove, Leave };

// A layer for a box, held, with the layers that it stands on. One that is not kept is removed when
// this goes, if it was made for the box.
class HeldLayer {
 public:
  HeldLayer(std::shared_ptr<const workspace::LayerRoot> root, workspace::Layer layer, UniqueFd hold,
            IfUnused if_unused)
      : root_(std::move(root)),
        layer_(std::move(layer)),
        hold_(std::move(hold)),
        if_unused_(if_unused) {}
  HeldLayer(HeldLayer&&) = default;
  HeldLayer& operator=(HeldLayer&&) = default;
  ~HeldLayer();

  const workspace::Layer& layer() const { return layer_; }
  workspace::Layer& layer() { return layer_; }
  // Holds the layers below, too: as long as somebody does they are not removed.
  Result<void> hold_frozen();
  // The session is there: the layer is its own from here on, and the holds are given to it.
  void keep(std::vector<UniqueFd>& holds);

 private:
  std::shared_ptr<const workspace::LayerRoot> root_;
  workspace::Layer layer_;
  UniqueFd hold_;
  std::vector<UniqueFd> frozen_;
  IfUnused if_unused_;
};

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
  // Of a policy of the service's: where it is from, and the set it was found in. A reload narrows
  // boxes with such a one.
  std::optional<PolicyOrigin> origin;
  std::shared_ptr<const policy::PolicySet> policies;
  std::optional<PythonPlan> python;
};

enum class PolicyFiles : std::uint8_t {
  Refused,  // whoever asks is not who owns this host's files
  Allowed,
};

struct PreparerSettings {
  std::string layer_root;  // directory of the layers; made if it is not there
  // Paths that no box may see, whatever it is handed: the service's own state, sockets and tokens.
  std::vector<std::string> hidden;
  // The same for what is hidden once it is there.
  std::vector<std::string> hidden_later{};
  // The directory of the secrets that boxes can be handed by name (host/secrets.h), and hidden like
  // these; empty: there are none.
  std::string secrets;
  std::shared_ptr<policy::PolicyStore> policies;  // may be empty
  PolicyFiles policy_files = PolicyFiles::Refused;
  std::chrono::milliseconds default_idle = kDefaultIdle;
  std::string probe;  // the program glovebox-probe, for sessions that are to be proved
  // The directory of the Python host's extension. Empty: there are no Python sessions here.
  std::string python_extension;
  // Where interpreters beside the system's may be. Empty: everywhere.
  std::vector<std::string> interpreter_roots;
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
  // All the refusals of prepare() that need nothing to be made.
  Result<void> check(const BoxRequest& request, const std::optional<KnownPlaces>& known = {});
  // Which part of a request that was refused is to blame by itself.
  RequestFault find_fault(const BoxRequest& request);
  // What is known of the host is read again, by the next who needs it: something was not as
  // planned.
  void forget_facts();

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
  Result<void> check_place(const Draft& draft, const plan::Workspace& place);
  Result<void> check_interpreter_place(const std::string& path) const;
  Result<void> make_directories(Draft& draft);
  Result<HeldLayer> make_layer(plan::Workspace& over, const LayerSource* source,
                               const workspace::QuotaChoice& quota);
  Result<HeldLayer> new_layer(const plan::Workspace& over, const LayerSource* source,
                              const workspace::QuotaChoice& quota);
  Result<HeldLayer> old_layer(const plan::Workspace& over, const std::string& id);

  PreparerSettings settings_;
  HiddenPlaces hidden_;
  std::shared_ptr<const workspace::LayerRoot> layers_;
  std::mutex mutex_;  // of what is below
  std::optional<host::HostFacts> facts_;
  std::chrono::steady_clock::time_point facts_read_;
  std::map<std::string, policy::CompiledPolicy> templates_;
};

}  // namespace glovebox::session
