// Class 31: memory that is not the heap: memfd, tmpfs, pipe and socket buffers, all charged to the
// box.
// Tried: each kind beyond the limit. Allowed: each kind below it.
// Canary: the run ends with its limit's name, or the kernel refuses; the host's memory is not used.
#include "support/box_test.h"

namespace glovebox::test {
namespace {

class MemoryBombs : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    if (IsSkipped()) return;
    if (as_root()) NEEDS(Feature::MemoryCgroup);
  }
  Words limit() const {
    return as_root() ? Words{"--memory", "48MiB", "--disk", "512MiB"} : Words{"--disk", "64MiB"};
  }
};

TEST_P(MemoryBombs, HeapIsCounted) {
  EXPECT_THAT(probe(limit(), {"memory_hog", "heap", "16"}), ended_with(0));
  if (as_root()) {
    EXPECT_THAT(probe(limit(), {"memory_hog", "heap", "300"}), ended_by_limit("memory"));
  }
}

TEST_P(MemoryBombs, MemfdIsCounted) {
  EXPECT_THAT(probe(limit(), {"memory_hog", "memfd", "16"}), ended_with(0));
  if (as_root()) {
    EXPECT_THAT(probe(limit(), {"memory_hog", "memfd", "300"}), ended_by_limit("memory"));
  }
}

TEST_P(MemoryBombs, PrivateFilesAreCounted) {
  EXPECT_THAT(probe(limit(), {"memory_hog", "/tmp/file", "16"}), ended_with(0));
  for (const char* path : {"/tmp/file", "/dev/shm/file", "/run/file", "/home/box/file"}) {
    const Outcome outcome = probe(limit(), {"memory_hog", path, "300"});
    EXPECT_THAT(outcome, testing::AnyOf(ended_by_limit("memory"), ended_with(ENOSPC))) << path;
  }
}

TEST_P(MemoryBombs, KernelBuffersAreBounded) {
  // Either the memory limit ends the box or the kernel's own bounds and the descriptor limit do.
  for (const char* kind : {"pipes", "sockets"}) {
    const Outcome outcome = probe(limit(), {"memory_hog", kind, "600"});
    EXPECT_THAT(outcome, testing::AnyOf(ended_by_limit("memory"), ended_with(EMFILE),
                                        ended_with(ENFILE), ended_with(ENOMEM)))
        << kind;
    EXPECT_THAT(probe(limit(), {"memory_hog", kind, "4"}), ended_with(0)) << kind;
  }
}

TEST_P(MemoryBombs, ManyProcessesShareOneLimit) {
  ROOT_TIER_ONLY();
  const std::string hold = probe_path() + " memory_hold heap 30 & ";
  const Words options{"--read", installation().probe_directory(), "--memory", "48MiB"};
  EXPECT_THAT(run(options, {"/bin/sh", "-c", hold + hold + hold + "wait"}),
              ended_by_limit("memory"));
  EXPECT_THAT(run(options, {"/bin/sh", "-c", hold + "true"}), ended_with(0));
}

BOX_TEST_TIERS(MemoryBombs);

}  // namespace
}  // namespace glovebox::test
