// From what is asked and what the host is to what will be done, or to a refusal that names what is
// missing. Pure: the same two values give the same plan on every host and in every test.
#pragma once

#include "base/result.h"
#include "host/facts.h"
#include "plan/launch_plan.h"
#include "plan/spec.h"

#include <span>
#include <string_view>

namespace glovebox::plan {

inline constexpr std::uint64_t kDefaultPids = 1024;
inline constexpr std::uint64_t kDefaultOpenFiles = 4096;
inline constexpr std::uint64_t kDefaultDiskBytes = 1ULL << 30;
inline constexpr std::uint64_t kDefaultStackBytes = 64ULL << 20;
// Bounds on what one request may ask for.
inline constexpr std::size_t kMaxArguments = 1U << 20;
inline constexpr std::size_t kMaxArgumentBytes = 32U << 20;

inline constexpr std::string_view kPathInside =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
inline constexpr std::string_view kHomeInside = "/home/box";

// Protections that a caller may give up by name.
std::span<const std::string_view> waivable();

Result<LaunchPlan> make_plan(const SandboxSpec& spec, const host::HostFacts& facts);

}  // namespace glovebox::plan
