#include "workspace/fixture.h"
#include "workspace/layer/kept.h"
#include "workspace/layer/layer_json.h"

#include <gmock/gmock.h>

#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace glovebox::workspace::test {
namespace {

class LayerTest : public WorkspaceTest {};

TEST_F(LayerTest, IsPrivateAndOpensAgain) {
  begin();
  struct stat facts{};
  ::stat(fs::path(layer().upper_path()).parent_path().c_str(), &facts);
  EXPECT_EQ(facts.st_mode & 0777U, 0700U);
  const auto again = open_layer(root(), layer().facts().id);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->facts(), layer().facts());
  EXPECT_EQ(again->base(), layer().base());
}

TEST_F(LayerTest, TheNewestIsListedFirst) {
  begin();
  const std::string first = layer().facts().id;
  begin();
  const auto all = list_layers(root());
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[1].id, first);
}

TEST_F(LayerTest, NamesThatAreNoIdsAreRefused) {
  for (const char* id : {"", "..", "../x", "a/b", ".new-1", "-1", "XYZ"}) {
    EXPECT_EQ(open_layer(root(), id).error().code, Code::Invalid) << id;
  }
  EXPECT_EQ(open_layer(root(), "abc").error().code, Code::NotFound);
}

TEST_F(LayerTest, ARootThatOthersMayEnterIsRefused) {
  const fs::path open_root = temp().path("open");
  fs::create_directory(open_root);
  ::chmod(open_root.c_str(), 0755);
  EXPECT_EQ(open_layer_root(open_root).error().code, Code::Denied);
}

TEST_F(LayerTest, CollectionKeepsWhatIsHeldAndUnfinished) {
  begin();
  const auto kept = layer().hold();
  ASSERT_TRUE(kept);
  begin();
  const std::string loose = layer().facts().id;
  begin();
  fs::create_directory(temp().path("layers/.removing-x"));
  const auto removed = collect_layers(root(), {.max_count = 1});
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_THAT(*removed, testing::ElementsAre(loose));
  EXPECT_EQ(list_layers(root())->size(), 2U);
  EXPECT_FALSE(fs::exists(temp().path("layers/.removing-x")));
}

TEST_F(LayerTest, AMarkedLayerIsNotFoundAndIsRemovedLater) {
  begin();
  const std::string id = layer().facts().id;
  write_file(upper() / "f", "box\n");
  const fs::path marked = temp().path("layers/.removing-" + id);
  ASSERT_EQ(mark_removed(root(), id).value(), id);
  EXPECT_EQ(open_layer(root(), id).error().code, Code::NotFound);
  EXPECT_THAT(*list_layers(root()), testing::IsEmpty());
  EXPECT_TRUE(fs::exists(marked / "box/upper"));
  EXPECT_EQ(mark_removed(root(), id).value(), id) << "asked again, it is marked already";
  ASSERT_TRUE(remove_marked(root(), id));
  EXPECT_FALSE(fs::exists(marked));
  EXPECT_TRUE(remove_marked(root(), id)) << "one that is gone";
  EXPECT_EQ(mark_removed(root(), id).error().code, Code::NotFound);
  EXPECT_EQ(remove_marked(root(), "../x").error().code, Code::Invalid);
}

TEST_F(LayerTest, WhatIsHeldIsNotMarkedAndWhatIsMarkedIsCollected) {
  begin();
  const std::string id = layer().facts().id;
  {
    const auto held = layer().hold();
    EXPECT_EQ(mark_removed(root(), id).error().code, Code::Denied);
    EXPECT_TRUE(open_layer(root(), id));
  }
  ASSERT_TRUE(mark_removed(root(), id));
  ASSERT_TRUE(collect_layers(root(), {}));
  EXPECT_FALSE(fs::exists(temp().path("layers/.removing-" + id)));
}

// A session that lived long leaves a layer that is older than those of sessions after it.
TEST_F(LayerTest, WhatWasLeftBehindLastStaysLongest) {
  begin();
  const std::string long_lived = layer().facts().id;
  begin();
  const std::string early = layer().facts().id;
  const std::int64_t now = layer().facts().created;
  ASSERT_TRUE(mark_kept(layer(), {.session = "e", .owner = "o", .at = now}));
  const auto opened = open_layer(root(), long_lived);
  ASSERT_TRUE(mark_kept(*opened, {.session = "l", .owner = "o", .at = now + 1}));
  EXPECT_THAT(*expired_kept(root(), {.max_count = 1}), testing::ElementsAre(early));
}

TEST_F(LayerTest, AMarkThatCannotBeReadIsAMark) {
  begin();
  const std::string broken = layer().facts().id;
  write_file(temp().path("layers/" + broken + "/kept.json"), "{");
  begin();
  ASSERT_TRUE(mark_kept(layer(), {.owner = "o", .at = layer().facts().created}));
  EXPECT_THAT(*expired_kept(root(), {.max_count = 1}), testing::IsEmpty()) << "other owners";
  ::usleep(10'000);
  EXPECT_THAT(*expired_kept(root(), {.max_age = std::chrono::seconds(0)}),
              testing::ElementsAre(broken, layer().facts().id));
}

TEST(LayerRoot, GivesEachLayerAPlaceOfItsOwnOnTheDisk) {
  const TempDir place(Ground::Disk);
  const auto root = open_layer_root(place.path("layers"));
  ASSERT_TRUE(root) << root.error().message;
  struct statfs disk{};
  ASSERT_EQ(::fstatfs(root->dir.get(), &disk), 0);
  if (disk.f_type != EXT4_SUPER_MAGIC) GTEST_SKIP() << "only ext4 has to be told";
  int flags = 0;
  ASSERT_EQ(::ioctl(root->dir.get(), FS_IOC_GETFLAGS, &flags), 0);
  EXPECT_NE(flags & FS_TOPDIR_FL, 0);
}

TEST_F(LayerTest, OldLayersAreCollected) {
  begin();
  EXPECT_THAT(*collect_layers(root(), {.max_age = std::chrono::hours(1)}), testing::IsEmpty());
  ::usleep(10'000);
  EXPECT_EQ(collect_layers(root(), {.max_age = std::chrono::seconds(0)})->size(), 1U);
}

TEST_F(LayerTest, AClockThatWasSetAheadMakesNoLayerOld) {
  begin();
  // As if it had been made a year before by the clock of then, which was wrong: of the same start
  // of the machine, and minutes ago.
  const std::string path = temp().path("layers/" + layer().facts().id + "/layer.json");
  LayerFacts facts = layer().facts();
  facts.created -= std::int64_t{365} * 86'400 * 1'000'000'000;
  write_file(path, encode_facts(facts));
  EXPECT_THAT(*collect_layers(root(), {.max_age = std::chrono::hours(1)}), testing::IsEmpty());
  ::usleep(10'000);
  EXPECT_EQ(collect_layers(root(), {.max_age = std::chrono::seconds(0)})->size(), 1U);
}

TEST_F(LayerTest, ALayerIsMadeAfterTheNewestWhateverTheClockSays) {
  begin();
  const std::int64_t future = layer().facts().created + 1'000'000'000'000;
  const auto next = make_layer(root(), {.origin = origin(), .after = future});
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(*newest_layer_time(root()), next->facts().created);
  const auto last = make_layer(root(), {.origin = origin(), .after = *newest_layer_time(root())});
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_GT(last->facts().id, next->facts().id);
  EXPECT_EQ(list_layers(root())->front().id, last->facts().id);
}

}  // namespace
}  // namespace glovebox::workspace::test
