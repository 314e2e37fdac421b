#include "plan/landlock.h"

#include "plan/parts.h"

namespace glovebox::plan {
namespace {

constexpr int kAbiWithTcp = 4;
constexpr int kAbiWithScopes = 6;

void allow(LaunchPlan& plan, int abi, const std::string& path, std::uint64_t rights) {
  plan.box.push_back({Op::LandlockAllow, rights & landlock::file_rights(abi), 0, path});
}

}  // namespace

Result<void> plan_landlock(const SandboxSpec& spec, const host::HostFacts& facts, const View& view,
                           LaunchPlan& plan) {
  const int abi = facts.landlock_abi;
  if (abi < 1) {
    if (spec.waived.contains("landlock")) return {};
    return fail(Code::Unsupported,
                "this kernel has no Landlock, the second wall around files (boot with "
                "lsm=landlock,..., or give it up with --waive landlock)");
  }
  std::uint64_t net_rights = 0;
  if (spec.loopback == Loopback::Down && abi >= kAbiWithTcp) {
    net_rights = landlock::kBindTcp | landlock::kConnectTcp;
  }
  std::uint64_t scopes = 0;
  if (abi >= kAbiWithScopes) scopes = landlock::kScopeAbstractSockets | landlock::kScopeSignals;
  plan.box.push_back({Op::LandlockBegin, landlock::file_rights(abi), net_rights | scopes << 32U});

  allow(plan, abi, "/", landlock::kReadTree);
  for (const std::string& top : view.scratch_tops) {
    allow(plan, abi, "/" + top, landlock::kWriteTree);
  }
  allow(plan, abi, "/dev", landlock::kWriteDevices);
  allow(plan, abi, "/proc", landlock::kWriteProc);
  for (const Tree& tree : view.trees) {
    if (tree.access != Access::Write) continue;
    const bool file = tree.source.kind == host::PathKind::File;
    allow(plan, abi, tree.source.path,
          file ? landlock::kWriteTree & landlock::kFileOnly : landlock::kWriteTree);
  }
  plan.box.push_back({Op::LandlockEnforce});
  plan.guarantees.push_back(
      {"landlock", fmt::format("ABI {}: files{}{}", abi, net_rights != 0 ? ", TCP" : "",
                               scopes != 0 ? ", signals, abstract sockets" : "")});
  return {};
}

}  // namespace glovebox::plan
