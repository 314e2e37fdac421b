// Class 23: protections that are silently absent because the host lacks them.
// Tried: glovebox runs under a filter that takes Landlock, user namespaces, mount attributes or
// seccomp away from it.
// Canary: a file that the command would make. The launch is refused and the file is not there.
#include "support/box_test.h"

#include <filesystem>

#include <sys/syscall.h>

namespace glovebox::test {
namespace {

class MissingWalls : public BoxTest {
 protected:
  void expect_refusal(const char* what, const std::vector<int>& calls) {
    const std::string work = make_directory(what);
    Settings settings;
    settings.refused_syscalls = calls;
    const Outcome outcome = run({"-w", work + ":rw"}, {"/usr/bin/touch", work + "/ran"}, settings);
    EXPECT_THAT(outcome, refused_to_start("")) << what;
    EXPECT_FALSE(std::filesystem::exists(work + "/ran")) << what;
    // One sentence, not a trace: the reader learns what is missing.
    EXPECT_LT(outcome.err.size(), 1000U) << what;
  }
};

TEST_P(MissingWalls, LandlockIsMissed) { expect_refusal("landlock", {444, 445, 446}); }

TEST_P(MissingWalls, LandlockCanBeGivenUpByName) {
  Settings settings;
  settings.refused_syscalls = {444, 445, 446};
  EXPECT_THAT(run({"--waive", "landlock"}, {"true"}, settings), ended_with(0));
}

TEST_P(MissingWalls, NamespacesAreMissed) {
  expect_refusal("namespaces", {SYS_unshare, SYS_clone3, SYS_clone});
}

TEST_P(MissingWalls, MountAttributesAreMissed) {
  expect_refusal("mounts", {SYS_mount_setattr, SYS_mount});
}

TEST_P(MissingWalls, SeccompIsMissed) { expect_refusal("seccomp", {SYS_seccomp, SYS_prctl}); }

TEST_P(MissingWalls, NothingElseCanBeGivenUp) {
  for (const char* name :
       {"seccomp", "namespaces", "capabilities", "no-new-privileges", "*", "all"}) {
    EXPECT_THAT(run({"--waive", name}, {"true"}), refused_to_start(name)) << name;
  }
}

BOX_TEST_TIERS(MissingWalls);

}  // namespace
}  // namespace glovebox::test
