#include "mcp/repl/checkpoint_place.h"

#include "base/file.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::mcp {
namespace {

class CheckpointPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "glovebox-place-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  CheckpointPlace open() const {
    auto place = open_checkpoint_place(directory_, key_);
    EXPECT_TRUE(place) << place.error().message;
    return *std::move(place);
  }
  UniqueFd source(std::string_view text) const {
    auto file = open_file(directory_, O_RDWR | O_TMPFILE, 0600);
    EXPECT_TRUE(file && write_all(*file, text));
    return *std::move(file);
  }

  std::string directory_;
  checkpoint::Key key_{std::array<unsigned char, checkpoint::kKeyBytes>{}};
};

TEST_F(CheckpointPlaceTest, OneThatOthersMayWriteToIsRefused) {
  EXPECT_TRUE(open_checkpoint_place(directory_, key_));
  ASSERT_EQ(::chmod(directory_.c_str(), 0770), 0);
  EXPECT_EQ(open_checkpoint_place(directory_, key_).error().code, Code::Denied);
  EXPECT_FALSE(open_checkpoint_place(directory_ + "/none", key_));
}

TEST_F(CheckpointPlaceTest, NamesNeverLeadOut) {
  for (const char* name : {"a", "A-1_2.b", "9"}) EXPECT_TRUE(check_checkpoint_name(name)) << name;
  const std::string long_name(kMaxCheckpointName + 1, 'a');
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("../a"), std::string("a/b"),
        std::string("/a"), std::string("-a"), std::string("a b"), std::string("a\0b", 3),
        std::string("\xc3\xa4"), long_name}) {
    EXPECT_FALSE(check_checkpoint_name(name)) << name;
  }
}

TEST_F(CheckpointPlaceTest, WhatIsKeptIsFoundAndNotReplaced) {
  const CheckpointPlace place = open();
  ASSERT_TRUE(keep_checkpoint(place, "one", source("hello"), 5));
  EXPECT_EQ(keep_checkpoint(place, "one", source("other"), 5).error().code, Code::Denied);
  const auto kept = list_checkpoints(place);
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->size(), 1U);
  EXPECT_EQ(kept->front().name, "one");
  EXPECT_EQ(kept->front().size, 5U);
  const auto file = open_checkpoint(place, "one");
  ASSERT_TRUE(file);
  EXPECT_EQ(*read_fd(*file, 100), "hello");
  EXPECT_EQ(open_checkpoint(place, "two").error().code, Code::NotFound);
}

TEST_F(CheckpointPlaceTest, LinksAreNoCheckpoints) {
  const CheckpointPlace place = open();
  ASSERT_EQ(::symlink("/etc/passwd", (directory_ + "/link.checkpoint").c_str()), 0);
  ASSERT_EQ(::mkfifo((directory_ + "/pipe.checkpoint").c_str(), 0600), 0);
  EXPECT_FALSE(open_checkpoint(place, "link"));
  EXPECT_FALSE(open_checkpoint(place, "pipe"));
  EXPECT_FALSE(keep_checkpoint(place, "link", source("x"), 1));
  EXPECT_TRUE(list_checkpoints(place)->empty());
}

TEST_F(CheckpointPlaceTest, ThereIsAMost) {
  const CheckpointPlace place = open();
  for (std::size_t i = 0; i < kMaxCheckpoints; ++i) {
    ASSERT_TRUE(keep_checkpoint(place, std::to_string(i), source("x"), 1));
  }
  EXPECT_EQ(keep_checkpoint(place, "more", source("x"), 1).error().code, Code::Exhausted);
}

TEST_F(CheckpointPlaceTest, ACutSourceLeavesNothing) {
  const CheckpointPlace place = open();
  EXPECT_FALSE(keep_checkpoint(place, "one", source("hello"), 6));
  EXPECT_TRUE(list_checkpoints(place)->empty());
}

}  // namespace
}  // namespace glovebox::mcp
