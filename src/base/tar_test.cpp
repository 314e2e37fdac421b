#include "base/tar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace glovebox {
namespace {

TarBlock block_at(std::string_view bytes, std::size_t at) {
  TarBlock block{};
  std::ranges::copy(bytes.substr(at, kTarBlock), block.begin());
  return block;
}

TEST(TarFormat, ShortMemberIsOneBlock) {
  TarMember member{TarMember::Kind::Symlink, "a/b", "target", 0777, 0, 1'700'000'000};
  const std::string bytes = format_tar_member(member);
  ASSERT_EQ(bytes.size(), kTarBlock);
  const auto header = parse_tar_header(block_at(bytes, 0));
  ASSERT_TRUE(header && *header);
  EXPECT_EQ((*header)->type, '2');
  EXPECT_EQ((*header)->member.path, member.path);
  EXPECT_EQ((*header)->member.target, member.target);
  EXPECT_EQ((*header)->member.mode, member.mode);
  EXPECT_EQ((*header)->member.modified, member.modified);
}

TEST(TarFormat, LongPathsTravelInARecord) {
  for (std::size_t size = 90; size < 1100; size += 7) {
    TarMember member;
    member.path = std::string(size, 'p');
    const std::string bytes = format_tar_member(member);
    if (size <= 100) {
      EXPECT_EQ(bytes.size(), kTarBlock);
      continue;
    }
    const auto pax = parse_tar_header(block_at(bytes, 0));
    ASSERT_TRUE(pax && *pax);
    ASSERT_EQ((*pax)->type, 'x');
    TarOverrides overrides;
    ASSERT_TRUE(
        parse_pax(std::string_view(bytes).substr(kTarBlock, (*pax)->member.size), overrides));
    EXPECT_EQ(overrides.path, member.path);
  }
}

TEST(TarFormat, DamageIsNoticed) {
  const std::string bytes =
      format_tar_member(TarMember{TarMember::Kind::File, "x", "", 0644, 5, 0});
  for (std::size_t at = 0; at < kTarBlock; at += 3) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    EXPECT_FALSE(parse_tar_header(block_at(damaged, 0))) << at;
  }
  EXPECT_EQ(parse_tar_header(TarBlock{}).value().has_value(), false);
}

TEST(TarFormat, MalformedRecordsAreRefused) {
  for (const char* text : {"x", "5 a=b", "99 path=x\n", "0 =\n", "3 \n", "9 pathx\n",
                           "12 size=-1x\n", "11 path=xyz"}) {
    TarOverrides overrides;
    EXPECT_FALSE(parse_pax(text, overrides)) << text;
  }
  TarOverrides overrides;
  EXPECT_TRUE(parse_pax("11 size=123\n12 comment=\n", overrides) || !overrides.size);
}

TEST(TarFormat, PathsThatLeadOutAreRefused) {
  EXPECT_EQ(clean_member_path("./a//b/./c/").value(), "a/b/c");
  EXPECT_EQ(clean_member_path("./").value(), "");
  for (const char* bad : {"", "/a", "..", "a/../b", "../a", "a/.."}) {
    EXPECT_FALSE(clean_member_path(bad)) << bad;
  }
}

TEST(TarFormat, AnyBlockIsParsedOrRefused) {
  std::mt19937 random(7);  // NOLINT: the same blocks every time
  const std::string seed = format_tar_member(TarMember{TarMember::Kind::File, "x", "", 0644, 5, 0});
  for (int i = 0; i < 50'000; ++i) {
    TarBlock block = block_at(seed, 0);
    for (int n = 0; n < 4; ++n) block.at(random() % block.size()) = static_cast<char>(random());
    (void)parse_tar_header(block);
    TarOverrides overrides;
    (void)parse_pax(std::string_view(block.data(), block.size()), overrides);
  }
}

}  // namespace
}  // namespace glovebox
