#include "checkpoint/key.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace glovebox::checkpoint {
namespace {

TEST(CheckpointKey, ComesAsBytesOrAsDigits) {
  const auto key = make_key();
  ASSERT_TRUE(key);
  const std::string raw(reinterpret_cast<const char*>(key->bytes().data()), kKeyBytes);
  EXPECT_TRUE(*parse_key(raw) == *key);
  EXPECT_TRUE(*parse_key(key->to_hex()) == *key);
  EXPECT_TRUE(*parse_key(key->to_hex() + "\n") == *key);
  for (const std::string& wrong : {std::string(), std::string("secret"), std::string(64, 'g'),
                                   std::string(63, 'a'), std::string(65, 'a'), raw + "x"}) {
    EXPECT_EQ(parse_key(wrong).error().code, Code::Invalid) << wrong.size();
  }
}

TEST(CheckpointKey, IdsTellKeysApart) {
  const auto one = make_key();
  const auto two = make_key();
  EXPECT_EQ(one->id().size(), 16u);
  EXPECT_EQ(one->id(), parse_key(one->to_hex())->id());
  EXPECT_NE(one->id(), two->id());
  EXPECT_EQ(one->to_hex().find(one->id()), std::string::npos);
}

TEST(CheckpointKey, AFileThatOthersCanReadIsRefused) {
  std::string name = "/tmp/glovebox-key-test-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const std::filesystem::path path = std::filesystem::path(name) / "key";
  std::ofstream(path) << make_key()->to_hex();
  using std::filesystem::perms;
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write);
  EXPECT_TRUE(read_key_file(path));
  std::filesystem::permissions(path, perms::owner_read | perms::group_read);
  EXPECT_EQ(read_key_file(path).error().code, Code::Denied);
  EXPECT_FALSE(read_key_file(name + "/missing"));
  std::filesystem::remove_all(name);
}

TEST(CheckpointKey, AProofIsOfOneKeyOneFileAndOneSession) {
  const auto key = make_key();
  const std::string proof = proof_of_receipt(*key, "file", "session");
  EXPECT_TRUE(same_proof(proof, proof_of_receipt(*key, "file", "session")));
  EXPECT_FALSE(same_proof(proof, proof_of_receipt(*make_key(), "file", "session")));
  EXPECT_FALSE(same_proof(proof, proof_of_receipt(*key, "other", "session")));
  EXPECT_FALSE(same_proof(proof, proof_of_receipt(*key, "filesess", "ion")));
  EXPECT_FALSE(same_proof(proof, ""));
}

}  // namespace
}  // namespace glovebox::checkpoint
