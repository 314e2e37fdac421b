// The launcher: obeys a plan and has a box to show for it.
//
// It must be single-threaded for life: it changes its own namespaces and ids, and its children run
// on a copy of its memory without executing anything first.
//
// Two lives. For one box (the command line: this process is the launcher) it clones the box from
// where it stands, and the box's first process builds everything. Serving many (launcher_server.h)
// it lives in a mount namespace (as an ordinary user: also in a user namespace) of its own, builds
// the read-only base view there once, and clones each box from it; a second mount namespace keeps
// the host's tree, to open what is handed into boxes later.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "host/facts.h"
#include "launch/box.h"
#include "launch/cgroup_pool.h"
#include "launch/child/context.h"
#include "launch/network_pool.h"
#include "launch/parked.h"
#include "launch/uid_lease.h"
#include "plan/flat_plan.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace glovebox::launch {

// What a launch takes besides the plan. The descriptors are borrowed. -1: the box's own terminal.
struct StartFiles {
  std::array<int, 3> stdio{0, 1, 2};
  int status = -1;          // the box's end of the status socket
  int status_outside = -1;  // the other end; used by a launcher for one box
  int order = -1;           // the box is parked, and waits for its plan on this
  // How many boxes like this one a serving launcher may keep parked, for those who ask next.
  std::uint32_t keep_parked = 0;
};

class Launcher {
 public:
  enum class Life : std::uint8_t { OneBox, Serving };

  // Enters the launcher's namespaces. From here on this process sees its own mount namespace.
  static Result<Launcher> enter(const host::HostFacts& facts, Life life);

  // Tells where this process's own arguments lie in memory, so that no box can read them as its
  // init's (/proc/1/cmdline). `argv` as main got it, before anything was changed in it.
  void hide_arguments(int argc, char** argv);

  // What PID 1 of a box does that is planned with an agent (plan::Resident). Without one such plans
  // are refused.
  void set_agent(int (*agent)(int socket)) { agent_ = agent; }

  // Starts a box. On failure nothing is left: no process, cgroup, mount or lease.
  Result<Box> start(const plan::PlanView& plan, const StartFiles& files);

  // Parked boxes: readable when one has ended unasked, which reap_parked() puts away.
  BorrowedFd parked_fd() const { return parked_.fd(); }
  void reap_parked() { parked_.reap(); }
  ParkedCounts parked_counts() const { return parked_.counts(); }

  // Makes ahead of need what a start would otherwise wait for. One unit of work; false when there
  // is nothing left to do.
  bool stock_up();

 private:
  Launcher(host::Tier tier, Life life) : tier_(tier), life_(life) {}

  Result<void> enter_user_namespace();
  Result<void> enter_mount_namespace();
  Result<std::vector<UniqueFd>> open_trees(const plan::PlanView& plan, std::uint32_t uid);
  static Result<UniqueFd> open_image_tree(const char* path, const plan::FlatTree& tree, int userns);
  Result<Cgroup> make_cgroup(const plan::PlanView& plan);
  Result<Box> hand_out(const plan::PlanView& plan, const StartFiles& files,
                       const std::vector<UniqueFd>& trees, ParkedBox parked);
  std::optional<Box> find_parked(const plan::PlanView& plan, const StartFiles& files);
  Result<ParkedBox> park(const plan::PlanView& plan);
  Result<void> build_base(const plan::PlanView& plan);
  Result<void> go_outside();  // serving: to the host's tree
  Result<void> go_inside();   // and back to the base view
  bool cgroup_comes_later(const plan::PlanView& plan) const;
  Result<void> send_cgroup(const plan::PlanView& plan, const StartFiles& files, Box& box);
  ChildContext context_for(const plan::PlanView& plan, const StartFiles& files,
                           const Box& box) const;
  Result<void> clone_process(ChildContext& context, Box& box);
  Result<void> clone_box(const plan::PlanView& plan, const StartFiles& files,
                         const std::vector<UniqueFd>& trees, Box& box);

  enum class View : std::uint8_t { Host, Unfinished, Base };

  host::Tier tier_;
  Life life_;
  View view_ = View::Host;
  std::uint32_t own_uid_ = 0;
  std::uint32_t own_gid_ = 0;
  std::optional<UidLeases> leases_;
  std::uint64_t serial_ = 0;
  std::array<std::uint64_t, kNamespaceCount> namespaces_{};  // where it began
  std::uint64_t base_device_ = 0;                            // of the base view's root
  std::vector<std::byte> base_bytes_;  // the plan that the base view was built for
  std::optional<plan::PlanView> base_plan_;
  std::span<char> title_;
  int (*agent_)(int socket) = nullptr;
  UniqueFd self_;       // pidfd of this process
  UniqueFd host_view_;  // mount namespaces, when serving
  UniqueFd base_view_;
  NetworkPool networks_;
  CgroupPool cgroups_;
  LeftoverCgroups leftovers_;
  UniqueFd null_;  // the standard streams of a parked box
  ParkedBoxes parked_;
};

// The sentence for a step or a tree that failed, with the remedy where one is known.
Error step_error(const plan::Step& step, int os_errno);
Error tree_error(std::string_view path, int os_errno);

}  // namespace glovebox::launch
