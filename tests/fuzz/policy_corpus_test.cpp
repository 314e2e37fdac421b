// The corpus of the fuzzer, run as a plain test.
#include "fuzz/policy_properties.h"

#include "base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace glovebox::policy {
namespace {

TEST(FuzzCorpus, EveryDocumentKeepsTheProperties) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GLOVEBOX_FUZZ_CORPUS "/policy")) {
    const auto text = read_file(entry.path().string());
    ASSERT_TRUE(text) << entry.path();
    EXPECT_EQ(broken_property(*text), "") << entry.path();
    ++count;
  }
  EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace glovebox::policy
