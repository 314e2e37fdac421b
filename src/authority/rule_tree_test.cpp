#include "authority/rule_tree.h"

#include <gtest/gtest.h>

namespace glovebox::authority {
namespace {

void settle_nothing(FacetMap&) {}

FacetMap painted(std::initializer_list<Span> spans) {
  FacetMap map;
  for (const Span& span : spans) map.paint(span);
  return map;
}

TEST(FacetMap, PaintingKeepsTheOneForm) {
  using enum Effect;
  EXPECT_EQ(painted({{0, 5, Allow}, {6, 9, Allow}}).spans(), (std::vector<Span>{{0, 9, Allow}}));
  EXPECT_EQ(painted({{6, 9, Allow}, {0, 5, Allow}}).spans(), (std::vector<Span>{{0, 9, Allow}}));
  EXPECT_EQ(painted({{0, 65535, Allow}, {3, 4, Deny}}).spans(),
            (std::vector<Span>{{0, 2, Allow}, {3, 4, Deny}, {5, 65535, Allow}}));
  EXPECT_EQ(painted({{0, 9, Allow}, {0, 9, Silent}}), FacetMap());
  EXPECT_EQ(painted({{2, 4, Deny}, {0, 65535, Allow}}).spans(),
            (std::vector<Span>{{0, 65535, Allow}}));
}

TEST(FacetMap, AnswersAtTheEdges) {
  using enum Effect;
  const FacetMap map = painted({{1, 65535, Allow}, {443, 443, Deny}});
  EXPECT_EQ(map.at(0), Silent);
  EXPECT_EQ(map.at(1), Allow);
  EXPECT_EQ(map.at(442), Allow);
  EXPECT_EQ(map.at(443), Deny);
  EXPECT_EQ(map.at(65535), Allow);
}

TEST(FacetMap, DifferencesNameSilence) {
  using enum Effect;
  const FacetMap before = painted({{0, 9, Allow}});
  const FacetMap after = painted({{0, 3, Allow}, {6, 7, Deny}});
  EXPECT_EQ(FacetMap::differences(after, before),
            (std::vector<Span>{{4, 5, Silent}, {6, 7, Deny}, {8, 9, Silent}}));
  EXPECT_TRUE(FacetMap::differences(after, after).empty());
}

TEST(FacetMap, CoversOnlyWhatItAllowsWithoutAGap) {
  using enum Effect;
  const FacetMap wide = painted({{0, 9, Allow}, {5, 5, Deny}});
  EXPECT_TRUE(wide.allows_all_of(painted({{0, 4, Allow}, {6, 9, Allow}})));
  EXPECT_FALSE(wide.allows_all_of(painted({{4, 6, Allow}})));
  EXPECT_FALSE(wide.allows_all_of(painted({{9, 10, Allow}})));
  EXPECT_TRUE(wide.allows_all_of(painted({{5, 20, Deny}})));
}

TEST(RuleTree, DropsNodesThatRepeatTheOneAbove) {
  using enum Effect;
  const RuleTree tree({{"a", {0, 0, Allow}, 0}, {"ab", {0, 0, Allow}, 0}, {"abc", {0, 0, Deny}, 0}},
                      settle_nothing);
  ASSERT_EQ(tree.nodes().size(), 2u);
  EXPECT_EQ(tree.nodes()[1].key, "abc");
  EXPECT_EQ(tree.nodes()[1].above, 0);
}

TEST(RuleTree, FindsTheNodeThatSpeaks) {
  using enum Effect;
  const RuleTree tree({{"a", {0, 0, Allow}, 0}, {"abc", {0, 0, Deny}, 0}, {"b", {0, 0, Allow}, 0}},
                      settle_nothing);
  EXPECT_EQ(tree.find_node(""), RuleTree::kNoNode);
  EXPECT_EQ(tree.find_node("a"), 0);
  EXPECT_EQ(tree.find_node("abb"), 0);
  EXPECT_EQ(tree.find_node("abcd"), 1);
  EXPECT_EQ(tree.find_node("abd"), 0);
  EXPECT_EQ(tree.find_node("bz"), 2);
  EXPECT_EQ(tree.find_node("c"), RuleTree::kNoNode);
}

}  // namespace
}  // namespace glovebox::authority
