#include "plan/landlock.h"

#include "plan/parts.h"

namespace glovebox::plan {
namespace {

constexpr int kAbiWithTcp = 4;
constexpr int kAbiWithScopes = 6;

void allow(LaunchPlan& plan, int abi, const std::string& path, std::uint64_t rights) {
  plan.box.push_back({Op::LandlockAllow, rights & landlock::file_rights(abi), 0, path});
}

std::uint64_t file_rights_of(const Rights& rights) {
  std::uint64_t bits = 0;
  if (rights.read) bits |= landlock::kReadFile | landlock::kReadDir;
  if (rights.write) bits |= landlock::kWriteTree & ~landlock::kExecute;
  if (rights.exec) bits |= landlock::kExecute;
  return bits;
}

}  // namespace

Result<void> plan_landlock(const SandboxSpec& spec, const host::HostFacts& facts,
                           const std::vector<Region>& regions, LaunchPlan& plan) {
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
  // The broker makes these calls for the box, so that none of the box's own has to pass.
  if (plan.network && plan.network->reaches_out() && abi >= kAbiWithTcp) {
    net_rights |= landlock::kConnectTcp | landlock::kBindTcp;
  }
  std::uint64_t scopes = 0;
  if (abi >= kAbiWithScopes) scopes = landlock::kScopeAbstractSockets | landlock::kScopeSignals;
  plan.box.push_back({Op::LandlockBegin, landlock::file_rights(abi), net_rights | scopes << 32U});

  // Rules add up from the root downwards, so the root itself gives only what holds everywhere.
  allow(plan, abi, "/", landlock::kReadDir);
  for (const host::SystemEntry& entry : facts.system) {
    if (entry.link_target.empty()) allow(plan, abi, "/" + entry.name, landlock::kReadTree);
  }
  for (const std::string_view tree : kPrivateTrees) {
    allow(plan, abi, std::string(tree), landlock::kWriteTree);
  }
  allow(plan, abi, "/dev", landlock::kWriteDevices);
  allow(plan, abi, "/proc", landlock::kWriteProc);
  for (const Region& region : regions) {
    const bool directory = region.at.kind == host::PathKind::Directory;
    const std::uint64_t rights = file_rights_of(region.rights);
    const std::uint64_t fitting = directory ? rights : rights & landlock::kFileOnly;
    if ((fitting & landlock::file_rights(abi)) != 0) allow(plan, abi, region.at.path, fitting);
  }
  plan.box.push_back({Op::LandlockEnforce});
  plan.guarantees.push_back(
      {"landlock", fmt::format("ABI {}: files{}{}", abi, net_rights != 0 ? ", TCP" : "",
                               scopes != 0 ? ", signals, abstract sockets" : "")});
  return {};
}

}  // namespace glovebox::plan
