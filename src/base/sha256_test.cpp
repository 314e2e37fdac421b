#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace glovebox {
namespace {

std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.finish();
}

// The examples of FIPS 180-4.
TEST(Sha256, StandardExamples) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesOfAnySizeAreTheSame) {
  const std::string text(1000, 'x');
  for (std::size_t size = 1; size < 200; ++size) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += size) hash.add(text.substr(at, size));
    ASSERT_EQ(hash.finish(), hash_of(text)) << size;
  }
}

}  // namespace
}  // namespace glovebox
