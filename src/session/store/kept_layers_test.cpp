#include "session/store/kept_layers.h"

#include <gtest/gtest.h>

namespace glovebox::session {
namespace {

workspace::LayerFacts layer(const std::string& id) {
  workspace::LayerFacts facts;
  facts.id = id;
  return facts;
}

TEST(KeptLayers, TheOldestIsTheOneThatWasLeftBehindFirst) {
  KeptLayers layers;
  EXPECT_EQ(layers.oldest(), "");
  layers.add(layer("20260101-long-lived"), 300);
  layers.add(layer("20260102-short"), 200);
  layers.add(layer("20260103-short"), 250);
  EXPECT_EQ(layers.oldest(), "20260102-short");
  EXPECT_EQ(layers.take("20260102-short").size(), 1U);
  EXPECT_EQ(layers.oldest(), "20260103-short");
}

TEST(KeptLayers, TheNextIsTheNewestWhateverTheClockSays) {
  KeptLayers layers;
  EXPECT_EQ(layers.time_of_next(100), 100);
  layers.add(layer("a"), 300);
  EXPECT_EQ(layers.time_of_next(100), 301);
  EXPECT_EQ(layers.time_of_next(400), 400);
}

}  // namespace
}  // namespace glovebox::session
