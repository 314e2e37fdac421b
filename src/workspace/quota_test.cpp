#include "workspace/quota.h"

#include <gtest/gtest.h>

namespace glovebox::workspace {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

QuotaFacts user_host() {
  return {.memory_available = 8 * kGiB,
          .layer_filesystem_free = 100 * kGiB,
          .has_overlay_on_tmpfs = true};
}

TEST(Quota, WithoutALimitTheUpperIsADirectory) {
  EXPECT_EQ(choose_quota(user_host(), {})->backing, Backing::Directory);
}

TEST(Quota, ASmallLimitIsATmpfsAlsoForAUser) {
  const auto choice = choose_quota(user_host(), {.bytes = kGiB, .inodes = 5000});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->backing, Backing::Tmpfs);
  EXPECT_EQ(choice->mount_options, "size=1073741824,nr_inodes=5000,mode=0700");
}

TEST(Quota, ALargeLimitNeedsRootAndAnImage) {
  EXPECT_FALSE(choose_quota(user_host(), {.bytes = 20 * kGiB}));
  QuotaFacts root = user_host();
  root.is_root = root.has_loop_devices = root.has_mkfs_ext4 = true;
  const auto choice = choose_quota(root, {.bytes = 20 * kGiB});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->backing, Backing::LoopImage);
  EXPECT_GT(choice->image_bytes, 20 * kGiB);
  EXPECT_FALSE(choose_quota(root, {.bytes = 200 * kGiB}));
  root.has_mkfs_ext4 = false;
  EXPECT_FALSE(choose_quota(root, {.bytes = 20 * kGiB}));
}

TEST(Quota, WhatCannotBeEnforcedIsRefused) {
  EXPECT_FALSE(choose_quota(user_host(), {.inodes = 10}));
  QuotaFacts old = user_host();
  old.has_overlay_on_tmpfs = false;
  EXPECT_FALSE(choose_quota(old, {.bytes = kGiB}));
}

}  // namespace
}  // namespace glovebox::workspace
