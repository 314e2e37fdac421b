// The corpus of the checkpoint fuzzer, run as a plain test.
#include "fuzz/checkpoint_properties.h"

#include "base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace glovebox::checkpoint {
namespace {

TEST(CheckpointCorpus, HasItsProperties) {
  const std::filesystem::path corpus = std::string(GLOVEBOX_FUZZ_CORPUS) + "/checkpoint";
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(corpus)) {
    const auto bytes = read_file(file.path(), std::size_t{1} << 24);
    ASSERT_TRUE(bytes) << file.path();
    EXPECT_EQ(broken_property(*bytes), "") << file.path();
    EXPECT_EQ(broken_property(sealed(*bytes)), "") << file.path();
    // And every cut of it.
    for (std::size_t size = 0; size < std::min<std::size_t>(bytes->size(), 300); ++size) {
      EXPECT_EQ(broken_property(std::string_view(*bytes).substr(0, size)), "") << file.path();
    }
    ++count;
  }
  EXPECT_GE(count, 5u);
}

}  // namespace
}  // namespace glovebox::checkpoint
