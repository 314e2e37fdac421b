// Class 33: a crash whose core is written, or piped to a helper of the host that runs as root.
// Tried: SIGSEGV with a secret in memory, in a writable workspace.
// Canary: no core file there, in the directory of the caller or in the host's pattern; the run is
// reported as ended by the signal, without the core flag.
#include "support/box_test.h"

#include <filesystem>

namespace glovebox::test {
namespace {

class CoreDumps : public BoxTest {};

TEST_P(CoreDumps, CrashLeavesNoCore) {
  const std::string work = make_directory("work");
  Settings settings;
  settings.directory = scratch();
  const Outcome outcome = probe({"-w", work + ":rw"}, {"core_dump", work}, settings);
  EXPECT_THAT(outcome, ended_with(128 + SIGSEGV));
  EXPECT_TRUE(std::filesystem::is_empty(work));
  for (const auto& entry : std::filesystem::directory_iterator(scratch())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("core")) << entry.path();
  }
}

TEST_P(CoreDumps, ShellSeesNoCoreEither) {
  const std::string work = make_directory("work");
  const std::string words =
      "ulimit -c unlimited 2>/dev/null; " + probe_path() + " core_dump " + work + "; ls -A";
  const Outcome outcome = run({"-w", work + ":rw", "--read", installation().probe_directory()},
                              {"/bin/sh", "-c", words});
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("\ncore")));
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("core dumped")));
}

TEST_P(CoreDumps, PatternCannotBeChanged) {
  EXPECT_THAT(probe({}, {"write", "/proc/sys/kernel/core_pattern", "|/tmp/x"}),
              refused_with(Errnos{EROFS, EACCES, EPERM}));
}

TEST_P(CoreDumps, LimitCannotBeRaised) {
  EXPECT_NE(run({}, {"/bin/sh", "-c", "ulimit -c unlimited"}).code, 0);
  EXPECT_THAT(probe({}, {"exit_code", "0"}), ended_with(0));
}

BOX_TEST_TIERS(CoreDumps);

}  // namespace
}  // namespace glovebox::test
