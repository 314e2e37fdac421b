// Several sessions that go on from where one is, and share nothing but its past.
#include "state/state_fixture.h"

#include <set>

namespace glovebox::session {
namespace {

class ForkTest : public StateTest {};

TEST_F(ForkTest, ChildrenBeginWhereTheParentIs) {
  put_on_host(work_directory() + "/original", "original\n");
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent,
                "mkdir -p deep && echo past > deep/file && rm original && cd deep &&"
                "export COLOUR='light blue'")
                .code,
            0);
  const auto children = fork(parent, 3);
  ASSERT_EQ(children.size(), 3u);
  for (const SessionInfo& child : children) {
    EXPECT_EQ(child.parent, parent.id);
    EXPECT_NE(child.id, parent.id);
    EXPECT_EQ(run(child, "pwd; cat file; echo $COLOUR; ls ..").output,
              work_directory() + "/deep\npast\nlight blue\ndeep\n");
  }
  EXPECT_EQ(run(parent, "pwd; cat file; echo $COLOUR").output,
            work_directory() + "/deep\npast\nlight blue\n")
      << "the parent goes on";
  EXPECT_EQ(on_host("original"), "original\n");
}

TEST_F(ForkTest, BranchesDoNotSeeEachOther) {
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo past > shared; mkdir d; echo x > d/x").code, 0);
  const auto children = fork(parent, 4);
  ASSERT_EQ(children.size(), 4u);
  int number = 0;
  for (const SessionInfo& child : children) {
    const std::string name = std::to_string(number++);
    ASSERT_EQ(
        run(child, "echo " + name + " > shared; echo mine > only-" + name + "; rm d/x; mknod d/p p")
            .code,
        0);
  }
  ASSERT_EQ(run(parent, "echo parent > shared; echo mine > only-parent").code, 0);
  number = 0;
  for (const SessionInfo& child : children) {
    const std::string name = std::to_string(number++);
    EXPECT_EQ(run(child, "cat shared; ls").output, name + "\nd\nonly-" + name + "\nshared\n");
  }
  EXPECT_EQ(run(parent, "cat shared; ls; cat d/x").output, "parent\nd\nonly-parent\nshared\nx\n");
}

// Nor can a branch name what another wrote: its mounts are of its own layers alone.
TEST_F(ForkTest, NoBranchFindsAnothersLayer) {
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo past > file").code, 0);
  const auto children = fork(parent, 2);
  ASSERT_EQ(children.size(), 2u);
  const std::string other = children[1].workspaces.front().layer_id;
  EXPECT_NE(run(children[0], "ls " + state_directory()).code, 0);
  EXPECT_EQ(run(children[0], "cat /proc/self/mountinfo").output.find(other), std::string::npos);
}

// By the shell itself: programs of a pipeline come and go while they count.
constexpr const char* kCountProcesses = "set -- /proc/[0-9]*; echo $#";

TEST_F(ForkTest, EachHasItsOwnRandomNumbersCgroupAndProcesses) {
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo past > file").code, 0);
  const auto children = fork(parent, 8);
  ASSERT_EQ(children.size(), 8u);
  std::set<std::string> words;
  std::set<std::string> numbers;
  for (const SessionInfo& child : children) {
    words.insert(run(child, "od -An -tx1 -N16 /dev/urandom").output);
    numbers.insert(run(child, "echo $RANDOM $RANDOM $RANDOM $RANDOM").output);
    EXPECT_EQ(run(child, kCountProcesses).output, run(children[0], kCountProcesses).output);
  }
  EXPECT_EQ(words.size(), 8u);
  EXPECT_EQ(numbers.size(), 8u);
}

TEST_F(ForkTest, OneBranchIsCommittedAndTheOthersConflict) {
  put_on_host(work_directory() + "/file", "before\n");
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo past > past; echo middle > file").code, 0);
  const auto children = fork(parent, 2);
  ASSERT_EQ(children.size(), 2u);
  ASSERT_EQ(run(children[0], "echo best > file; echo new > new").code, 0);
  ASSERT_EQ(run(children[1], "echo other > file").code, 0);
  EXPECT_NE(diff_text(children[0].id).find("+past"), std::string::npos)
      << "what the parent wrote is part of it";
  const auto committed = await(manager_->commit(children[0].id, {}));
  ASSERT_TRUE(committed) << committed.error().message;
  EXPECT_FALSE(committed->is_refused());
  EXPECT_EQ(on_host("file"), "best\n");
  EXPECT_EQ(on_host("past"), "past\n");
  EXPECT_EQ(on_host("new"), "new\n");
  const auto late = await(manager_->commit(children[1].id, {}));
  ASSERT_TRUE(late) << late.error().message;
  EXPECT_TRUE(late->is_refused());
  EXPECT_EQ(on_host("file"), "best\n");
  const auto undone = await(manager_->undo(children[0].id, {}));
  ASSERT_TRUE(undone) << undone.error().message;
  EXPECT_EQ(on_host("file"), "before\n");
  EXPECT_EQ(on_host("past"), "(none)");
}

TEST_F(ForkTest, WhatDiffersBetweenBranchesIsShown) {
  put_on_host(work_directory() + "/original", "one\n");
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo past > past").code, 0);
  const auto children = fork(parent, 2);
  ASSERT_EQ(children.size(), 2u);
  ASSERT_EQ(run(children[0], "echo a > file; echo same > both; rm past").code, 0);
  ASSERT_EQ(run(children[1], "echo b > file; echo same > both; echo two > original").code, 0);
  const auto body =
      await(manager_->diff_between(children[0].id, children[1].id, {}, DiffForm::Unified));
  ASSERT_TRUE(body) << body.error().message;
  const std::string text = *read_fd(body->file, 1 << 20);
  EXPECT_EQ(body->changes, 3u) << text;
  EXPECT_NE(text.find("-a\n+b\n"), std::string::npos) << text;
  EXPECT_NE(text.find("+past\n"), std::string::npos) << text;
  EXPECT_NE(text.find("-one\n+two\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("both"), std::string::npos) << text;
  const auto same = await(manager_->diff_between(parent.id, parent.id, {}, DiffForm::Json));
  EXPECT_EQ(same->changes, 0u);
}

TEST_F(ForkTest, ForksOfForksStackAndTheLastTakesTheFrozenAlong) {
  SessionInfo current = make_session();
  std::vector<std::string> ids{current.id};
  for (int depth = 0; depth < 5; ++depth) {
    ASSERT_EQ(
        run(current, "echo " + std::to_string(depth) + " > level-" + std::to_string(depth)).code,
        0);
    const auto children = fork(current, 1);
    ASSERT_EQ(children.size(), 1u);
    current = children.front();
    ids.push_back(current.id);
  }
  EXPECT_EQ(run(current, "cat level-*").output, "0\n1\n2\n3\n4\n");
  EXPECT_EQ(current.workspaces.front().below.size(), 5u);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    ASSERT_TRUE(await(manager_->remove(ids[i], LayerFate::Remove)));
  }
  EXPECT_EQ(layers().size(), 6u) << "its own and the five that it stands on";
  EXPECT_EQ(run(current, "cat level-*").output, "0\n1\n2\n3\n4\n");
  ASSERT_TRUE(await(manager_->remove(current.id, LayerFate::Remove)));
  EXPECT_EQ(layers().size(), 0u);
}

TEST_F(ForkTest, AChildsAuthorityOnlyNarrows) {
  std::filesystem::create_directory(place("one"));
  std::filesystem::create_directory(place("two"));
  put_on_host(place("one/file"), "one\n");
  put_on_host(place("two/file"), "two\n");
  BoxRequest asked;
  asked.workspaces.push_back({work_directory()});
  asked.handed = granting({{"read", place("one")}, {"read", place("two")}, {"pids", "50"}});
  const auto parent = await(manager_->create(asked));
  ASSERT_TRUE(parent) << parent.error().message;
  ForkRequest request;
  request.ceiling = granting({{"read", place("one")}, {"write", "/usr"}});
  request.budgets = granting({{"pids", "500"}, {"open_files", "128"}});
  const auto children = await(manager_->fork(parent->id, request));
  ASSERT_TRUE(children) << children.error().message;
  EXPECT_EQ(run(children->front(), "cat " + place("one/file") + " " + place("two/file") +
                                       "; echo here > file; cat file")
                .output,
            "one\nhere\n");
  const authority::AuthoritySet& handed = children->front().effective.handed;
  EXPECT_EQ(handed.budget(authority::BudgetKind::Pids), 50u) << "no more than the parent's";
  EXPECT_EQ(handed.budget(authority::BudgetKind::OpenFiles), 128u);
  request.budgets = granting({{"read", "/etc"}});
  EXPECT_EQ(await(manager_->fork(parent->id, request)).error().code, Code::Invalid);
}

TEST_F(ForkTest, WhatRunsKeepsASessionFromBeingForked) {
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo past > file").code, 0);
  RunRequest background;
  background.code = "sleep 1000";
  ASSERT_TRUE(await(attach(parent)->start_background(background)));
  ForkRequest request;
  EXPECT_EQ(await(manager_->fork(parent.id, request)).error().code, Code::Exhausted);
  request.running = WhileRunning::End;
  const auto children = await(manager_->fork(parent.id, request));
  ASSERT_TRUE(children) << children.error().message;
  EXPECT_EQ(run(children->front(), "cat file").output, "past\n");
}

TEST_F(ForkTest, ASessionThatWroteNothingKeepsItsBox) {
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "X=still; sleep 1000 & true").code, 0);
  const auto children = fork(parent, 2);
  ASSERT_EQ(children.size(), 2u);
  EXPECT_EQ(run(parent, "echo $X; pgrep -c sleep").output, "still\n1\n");
  EXPECT_TRUE(children[0].workspaces.front().below.empty());
  EXPECT_EQ(run(children[0], "echo new > file; ls").output, "file\n");
}

TEST_F(ForkTest, DeadSessionsAndThoseOfAFormerServiceAreForkedToo) {
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo past > file").code, 0);
  ASSERT_TRUE(await(manager_->end(parent.id)));
  const auto children = fork(parent, 2);
  ASSERT_EQ(children.size(), 2u);
  EXPECT_EQ(run(children[0], "cat file; echo changed > file").output, "past\n");
  await(manager_->stop(LayerFate::Keep));
  close_manager();
  open_manager();
  EXPECT_EQ(layers().size(), 3u) << "what the children stand on is theirs, too";
  EXPECT_EQ(manager_->get(children[0].id)->parent, parent.id);
  ASSERT_TRUE(await(manager_->recycle(children[0].id, {})));
  EXPECT_EQ(run(children[0], "cat file").output, "changed\n");
  // The parent's layer is frozen by its children, so it goes on over it.
  ASSERT_TRUE(await(manager_->recycle(parent.id, {})));
  ASSERT_EQ(run(parent, "echo parent > file").code, 0);
  ASSERT_TRUE(await(manager_->recycle(children[1].id, {})));
  EXPECT_EQ(run(children[1], "cat file").output, "past\n");
}

TEST_F(ForkTest, AThousandForks) {
  const SessionInfo parent = make_session();
  ASSERT_EQ(run(parent, "echo past > file").code, 0);
  const std::size_t before = count_descriptors();
  std::set<std::string> ids;
  for (int round = 0; round < 20; ++round) {
    const auto children = fork(parent, 50);
    ASSERT_EQ(children.size(), 50u);
    EXPECT_EQ(run(children[static_cast<std::size_t>(round)], "cat file").output, "past\n");
    for (const SessionInfo& child : children) {
      ids.insert(child.id);
      ASSERT_TRUE(await(manager_->remove(child.id, LayerFate::Remove)));
    }
  }
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_LE(layers().size(), 2u) << "the parent's, and the one that it stands on";
  run_until([&] { return count_descriptors() <= before + 4; });
  EXPECT_EQ(run(parent, "cat file").output, "past\n");
}

}  // namespace
}  // namespace glovebox::session
