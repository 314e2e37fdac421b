#include "policy/policy_store.h"

#include "authority/terms.h"
#include "policy/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace glovebox::policy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Policy compiled(std::string_view text) {
  auto file = compile(text, "x.yaml");
  if (!file) {
    ADD_FAILURE() << to_text(file.error());
    return {};
  }
  return file->sandboxes.front().policy;
}

Narrowing narrowed(std::string_view before, std::string_view after) {
  auto result = narrowing(compiled(before), compiled(after));
  EXPECT_TRUE(result);
  return result ? *std::move(result) : Narrowing{};
}

TEST(Narrowing, NetworkAndBudgetsAreTakenAtOnce) {
  const Narrowing result = narrowed(
      "net: {connect: [\"*.example.com:443\"], resolve: [\"*\"]}\nwall: 10s",
      "net: {connect: [\"a.example.com:443\"], deny: [\"evil.example.com:*\"]}\nwall: 5s\npids: 9");
  EXPECT_THAT(
      result.at_once,
      ElementsAre("no longer: allow connect=*.example.com:443", "no longer: allow resolve=*",
                  "deny connect=evil.example.com:*", "pids=9", "wall=5000ms"));
  EXPECT_THAT(result.for_new_boxes, IsEmpty());
}

TEST(Narrowing, TheCutTakesFromARunningBoxWhatIsGoneAndNoMore) {
  const Policy before =
      compiled("net: {connect: [\"*.example.com:443\", \"10.0.0.1:1-9\"]}\nwall: 10s");
  const Policy after =
      compiled("net: {connect: [\"a.example.com:443\", \"10.0.0.1:1-4\"]}\nwall: 5s");
  const auto result = narrowing(before, after);
  ASSERT_TRUE(result);
  const authority::AuthoritySet running = before.authority.unite(result->cut);
  const auto allows = [&](std::string_view term) {
    return running.decide(*authority::parse_term(term)).effect == authority::Effect::Allow;
  };
  EXPECT_TRUE(allows("connect=a.example.com:443"));
  EXPECT_FALSE(allows("connect=b.example.com:443"));
  EXPECT_TRUE(allows("connect=10.0.0.1:4"));
  EXPECT_FALSE(allows("connect=10.0.0.1:5"));
  EXPECT_EQ(running.budget(authority::BudgetKind::Wall), 5000U);
  EXPECT_TRUE(before.authority.covers(running));
  EXPECT_TRUE(after.authority.covers(running));
}

TEST(Narrowing, PathsAndWhateverWidensHoldForNewBoxesOnly) {
  const Narrowing result =
      narrowed("fs: {read: [/srv]}\nwall: 5s\nimports: [json]",
               "fs: {read: [\"/opt/*\"], deny: [{exec: /x}]}\nwall: 10s\nimports: "
               "[json, os]\nnet: {connect: [\"a.example.com:1\"]}\nworkspace: rw");
  EXPECT_THAT(result.at_once, IsEmpty());
  EXPECT_TRUE(result.cut.empty());
  EXPECT_THAT(result.for_new_boxes,
              ElementsAre("no longer: allow read=/srv", "deny exec=/x", "wall=10000ms",
                          "allow connect=a.example.com:1", "allow import=os", "allow read=/opt/*",
                          "workspace: rw instead of what the caller says"));
}

TEST(Narrowing, BudgetsThatAreBuiltIntoABoxHoldForNewBoxesOnly) {
  const Narrowing result = narrowed("pids: 9", "pids: 5\ndisk: 1MiB\ninodes: 10\nopen_files: 64");
  EXPECT_THAT(result.at_once, ElementsAre("pids=5"));
  EXPECT_THAT(result.for_new_boxes, ElementsAre("disk=1048576", "inodes=10", "open_files=64"));
  EXPECT_FALSE(result.cut.budget(authority::BudgetKind::Disk));
}

TEST(Narrowing, EqualPoliciesChangeNothing) {
  EXPECT_EQ(narrowed("pids: 5\nfs: {read: [\"/a/*\"]}", "fs: [{read: \"/a/*/**\"}]\npids: 5"),
            Narrowing{});
}

TEST(PolicyStore, AReloadSwapsAllOrNothing) {
  PolicyStore store;
  EXPECT_THAT(store.current()->files(), IsEmpty());
  ASSERT_TRUE(
      store.reload(std::vector<NamedText>{{"b", "pids: 5"}, {"a", "sandboxes: {x: {}, y: {}}"}}));
  const auto before = store.current();
  ASSERT_NE(before->find("a"), nullptr);
  EXPECT_EQ(before->files()[0].file, "a");

  const auto bad =
      store.reload(std::vector<NamedText>{{"b", "pids: 6"}, {"c", "pids: x"}, {"d", "q: 1"}});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().size(), 2U);
  EXPECT_EQ(store.current(), before);

  const auto twice = store.reload(std::vector<NamedText>{{"b", "pids: 6"}, {"b", "pids: 6"}});
  ASSERT_FALSE(twice);
  EXPECT_EQ(to_text(twice.error()), "b: two documents have this name\n");
  EXPECT_EQ(store.current(), before);
}

TEST(PolicyStore, AReloadTellsWhatChanged) {
  PolicyStore store;
  ASSERT_TRUE(
      store.reload(std::vector<NamedText>{{"a", "sandboxes: {x: {pids: 5}, y: {}}"}, {"b", "{}"}}));
  const auto before = store.current();
  const auto changes =
      store.reload(std::vector<NamedText>{{"a", "sandboxes: {x: {pids: 4}, z: {}}"}});
  ASSERT_TRUE(changes);
  std::vector<std::string> lines;
  for (const PolicyChange& change : *changes) {
    lines.push_back(change.file + "#" + change.sandbox + " " +
                    std::to_string(static_cast<int>(change.kind)));
  }
  EXPECT_THAT(lines, ElementsAre("a#x 2", "a#z 0", "a#y 1", "b# 1"));
  EXPECT_THAT((*changes)[0].narrowing.at_once, ElementsAre("pids=4"));
  EXPECT_NE(before->find("b"), nullptr);  // who holds the old set keeps it
  EXPECT_EQ(store.current()->find("b"), nullptr);
}

TEST(PolicyStore, ReadersSeeOneSetOrTheOther) {
  PolicyStore store;
  const std::vector<NamedText> one{{"a", "pids: 1"}, {"b", "pids: 1"}};
  const std::vector<NamedText> two{{"a", "pids: 2"}, {"b", "pids: 2"}};
  ASSERT_TRUE(store.reload(one));
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const auto set = store.current();
      ASSERT_EQ(to_text(set->find("a")->sandboxes[0].policy),
                to_text(set->find("b")->sandboxes[0].policy));
    }
  });
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(store.reload(i % 2 == 0 ? two : one));
  done = true;
  reader.join();
}

}  // namespace
}  // namespace glovebox::policy
