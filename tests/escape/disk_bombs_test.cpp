// Class 32: filling the disk: bytes, inodes, sparse files, many links.
// Tried: each in every private place; the error comes at the write, not later.
// Canary: the host's /tmp does not grow.
#include "support/box_test.h"

#include <filesystem>

namespace glovebox::test {
namespace {

class DiskBombs : public BoxTest {};

TEST_P(DiskBombs, BytesEndAtTheWrite) {
  for (const char* path : {"/tmp/big", "/run/big", "/home/box/big", "/dev/shm/big"}) {
    EXPECT_THAT(probe({"--disk", "8MiB"}, {"disk_fill", path, "100"}), ended_with(ENOSPC)) << path;
  }
  EXPECT_THAT(probe({"--disk", "8MiB"}, {"disk_fill", "/tmp/small", "2"}), ended_with(0));
}

TEST_P(DiskBombs, PlacesShareOneBudget) {
  const std::string fill = probe_path() + " disk_fill ";
  EXPECT_THAT(run({"--read", installation().probe_directory(), "--disk", "8MiB"},
                  {"/bin/sh", "-c", fill + "/tmp/a 5 && " + fill + "/home/box/b 5"}),
              ended_with(ENOSPC));
}

TEST_P(DiskBombs, DefaultIsBoundedToo) {
  EXPECT_THAT(probe({}, {"inode_fill", "/tmp", "2000000"}), ended_with(ENOSPC));
}

TEST_P(DiskBombs, InodesAreBounded) {
  EXPECT_THAT(probe({"--disk", "8MiB"}, {"inode_fill", "/tmp", "100000"}), ended_with(ENOSPC));
  EXPECT_THAT(probe({"--disk", "8MiB"}, {"inode_fill", "/tmp", "100"}), ended_with(0));
}

TEST_P(DiskBombs, SparseFilesCostNothing) {
  EXPECT_THAT(probe({"--disk", "8MiB"}, {"sparse", "/tmp/sparse", "1000000"}),
              testing::AnyOf(ended_with(0), ended_with(EFBIG)));
}

TEST_P(DiskBombs, HostsTmpStaysAsItIs) {
  const std::string path = own_name_in("/tmp");
  EXPECT_THAT(probe({"--disk", "64MiB"}, {"disk_fill", path, "60"}), ended_with(0));
  EXPECT_FALSE(std::filesystem::exists(path));
}

BOX_TEST_TIERS(DiskBombs);

}  // namespace
}  // namespace glovebox::test
