// What a test needs of the host, tried and not inferred. A test that cannot run here skips and says
// why; with GLOVEBOX_CI_STRICT=1 a skip fails the program, unless its reason is on a short list of
// things that the CI machine really does not have.
#pragma once

#include <optional>
#include <string>

namespace glovebox::test {

enum class Feature {
  Root,            // the test program runs as root
  UserNamespaces,  // an ordinary process can make one
  MemoryCgroup,    // this process can make a cgroup with the memory controller
  PidsCgroup,
  CpuCgroup,
  CpuAccounting,
  Landlock,     // any ABI
  LandlockTcp,  // ABI 4
  Ipv6Loopback,
};

// Reasons of tests that concern one tier alone.
inline constexpr const char* kRootTierOnly = "this is about what root can do";
inline constexpr const char* kUserTierOnly = "this is about what an ordinary user can do";

// Nothing when the feature is there; else the reason as a skipped test gives it.
std::optional<std::string> why_missing(Feature feature);

// Whether a skip for this reason is fine on the CI machine.
bool is_expected_skip(const std::string& reason);

}  // namespace glovebox::test

// First line of a test or of SetUp: NEEDS(Feature::Landlock);
#define NEEDS(feature)                                                    \
  do {                                                                    \
    if (const auto glovebox_why = ::glovebox::test::why_missing(feature)) \
      GTEST_SKIP() << *glovebox_why;                                      \
  } while (false)
