// Disk budgets of layers: kept while writing, whatever holds the layer, and what was written within
// them is there afterwards.
#include "support/box_test.h"

#include <filesystem>

namespace glovebox::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// Larger than what goes into memory for root (workspace/layer/quota.h).
constexpr const char* kLarge = "300MiB";

class Quota : public BoxTest {
 protected:
  void SetUp() override {
    BoxTest::SetUp();
    work_ = make_tree("work");
  }

  Outcome in_box(const Words& options, const std::string& words) {
    Words all{"-w", work_};
    all.insert(all.end(), options.begin(), options.end());
    return run(all, {"/bin/sh", "-c", words});
  }
  Outcome fill(const Words& options, const std::string& megabytes) {
    Words all{"-w", work_};
    all.insert(all.end(), options.begin(), options.end());
    return probe(all, {"disk_fill", work_ + "/big", megabytes});
  }
  std::string guarantee(const Outcome& outcome) {
    for (const auto& line : outcome.report.at("enforced").as_array()) {
      if (line.at("name").as_string() == "limit.disk") return line.at("by").as_string().c_str();
    }
    return "";
  }

  std::string work_;
};

TEST_P(Quota, TheWriteThatGoesOverFailsAndTheReportSaysSo) {
  const Outcome outcome = fill({"--disk", "8MiB"}, "100");
  EXPECT_THAT(outcome, ended_with(ENOSPC));
  EXPECT_EQ(outcome.reason(), "exited");
  EXPECT_EQ(outcome.limit(), "disk");
  EXPECT_THAT(outcome.err, HasSubstr("limit reached: disk"));
  EXPECT_FALSE(fs::exists(work_ + "/big"));
  EXPECT_THAT(fill({"--disk", "8MiB"}, "2"), ended_with(0));
}

TEST_P(Quota, ALargeBudgetIsKeptToo) {
  const Outcome outcome = fill({"--disk", kLarge}, "400");
  EXPECT_THAT(outcome, ended_with(ENOSPC));
  EXPECT_EQ(outcome.limit(), "disk");
  EXPECT_THAT(guarantee(outcome), HasSubstr(as_root() ? "ext4 image, 300 MiB" : "layers included"));
  EXPECT_THAT(fill({"--disk", kLarge}, "280"), ended_with(0));
}

TEST_P(Quota, FilesAreCounted) {
  EXPECT_THAT(probe({"-w", work_, "--inodes", "100"}, {"inode_fill", work_, "1000"}),
              ended_with(ENOSPC));
  EXPECT_THAT(probe({"-w", work_, "--inodes", "100"}, {"inode_fill", work_, "50"}), ended_with(0));
}

TEST_P(Quota, WhatIsWrittenWithinTheBudgetIsThereAfterTheBox) {
  for (const char* size : {"16MiB", kLarge}) {
    fs::remove_all(work_);
    make_tree("work");
    make_directory("work/gone");
    make_file("work/gone/inner", "x");
    make_directory("work/new");
    make_file("work/new/hidden", "x");
    const Outcome outcome = in_box(
        {"--disk", size},
        "echo changed > old; echo made > made; chmod 750 made; ln -s made link; ln made twin; "
        "rm -r gone; rm -r new; mkdir new; echo y > new/inner; mkdir closed; echo z > closed/f; "
        "chmod 500 closed; truncate -s 100G sparse; rm sparse");
    ASSERT_THAT(outcome, ended_with(0)) << size;
    EXPECT_EQ(outcome.limit(), "");
    Settings here;
    here.directory = work_;
    EXPECT_THAT(glovebox({"diff", "last"}, here).out, HasSubstr("+made")) << size;
    ASSERT_THAT(glovebox({"commit", "last"}, here), ended_with(0)) << size;
    EXPECT_EQ(read_text(work_ + "/old"), "changed\n");
    EXPECT_EQ(read_text(work_ + "/made"), "made\n");
    EXPECT_EQ(read_text(work_ + "/twin"), "made\n");
    EXPECT_EQ(fs::status(work_ + "/made").permissions(), fs::perms(0750));
    EXPECT_EQ(fs::read_symlink(work_ + "/link"), "made");
    EXPECT_FALSE(fs::exists(work_ + "/gone"));
    EXPECT_FALSE(fs::exists(work_ + "/new/hidden"));
    EXPECT_EQ(read_text(work_ + "/new/inner"), "y\n");
    EXPECT_EQ(read_text(work_ + "/closed/f"), "z\n");
    ASSERT_THAT(glovebox({"undo"}, here), ended_with(0)) << size;
    EXPECT_FALSE(fs::exists(work_ + "/made"));
    EXPECT_TRUE(fs::exists(work_ + "/gone/inner"));
  }
}

// What costs nothing in memory may not cost much on the disk that it is moved to.
TEST_P(Quota, LinksAndHolesDoNotGrowOnTheirWayToTheDisk) {
  const Outcome outcome = in_box(
      {"--disk", "16MiB"},
      "head -c 4000000 /dev/zero > one; i=0; while [ $i -lt 200 ]; do ln one link$i; i=$((i+1)); "
      "done; truncate -s 100G hole");
  ASSERT_THAT(outcome, ended_with(0));
  std::uintmax_t blocks = 0;
  for (const auto& entry : fs::recursive_directory_iterator(scratch() + "/.state/layers")) {
    struct stat info{};
    if (::lstat(entry.path().c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      blocks += static_cast<std::uintmax_t>(info.st_blocks) / info.st_nlink;
    }
  }
  EXPECT_LT(blocks * 512, 10'000'000u);
}

TEST_P(Quota, AWorkspaceThatMayNotBeWrittenNeedsNoBudget) {
  EXPECT_THAT(in_box({"--disk", "8MiB", "--deny", "write=" + work_}, "cat old"), ended_with(0));
}

TEST_P(Quota, WaivedItIsNotKeptAndThatIsWrittenDown) {
  const Outcome outcome = fill({"--disk", "8MiB", "--waive", "limit.disk"}, "20");
  EXPECT_THAT(outcome, ended_with(0));
  EXPECT_EQ(outcome.report.at("waived").as_array().front().as_string(), "limit.disk");
}

TEST_P(Quota, PlacesAndLayersShareOneBudget) {
  const std::string fill = probe_path() + " disk_fill ";
  EXPECT_THAT(run({"-w", work_, "--read", installation().probe_directory(), "--disk", "8MiB"},
                  {"/bin/sh", "-c", fill + "/tmp/a 5 && " + fill + work_ + "/b 5"}),
              ended_with(ENOSPC));
}

BOX_TEST_TIERS(Quota);

}  // namespace
}  // namespace glovebox::test
