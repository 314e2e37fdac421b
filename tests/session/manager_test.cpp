// The SessionManager: registry, layers, idle collection, restarts, limits, the deaths of its
// helpers.
#include "fixture.h"

#include "authority/terms.h"
#include "base/file.h"
#include "launch/cgroup_pool.h"

#include <csignal>
#include <fstream>

#include <unistd.h>

namespace glovebox::session {
namespace {

using std::chrono::milliseconds;

authority::AuthoritySet budget(std::string_view word, std::string_view amount) {
  const std::vector<authority::Capability> one{*authority::parse_term(word, amount)};
  return *authority::AuthoritySet::granting(one);
}

class ManagedTest : public ManagerTest {
 protected:
  std::string on_host(const std::string& name) {
    const auto text = read_file(work_directory() + "/" + name);
    return text ? *text : "(none)";
  }
  void put_on_host(const std::string& name, const std::string& text) {
    std::ofstream(work_directory() + "/" + name) << text;
  }
  std::size_t layer_count() { return settled_layers().size(); }
  std::string diff_text(const std::string& id) {
    const auto body = await(manager_->diff(id, {}, DiffForm::Unified));
    if (!body) return body.error().message;
    return *read_fd(body->file, 1 << 20);
  }
};

TEST_F(ManagedTest, ASessionIsCreatedFoundAndDeleted) {
  BoxRequest request;
  request.name = "mine";
  request.labels = {{"team", "a"}};
  request.workspaces.push_back({work_directory()});
  const auto made = await(manager_->create(request));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->state, SessionState::Active);
  EXPECT_EQ(made->effective.workspaces.front().mode, WorkspaceMode::Overlay);
  EXPECT_EQ(made->idle_timeout, kDefaultIdle);
  EXPECT_GT(made->idle_remaining->count(), 1'700'000);
  const SessionInfo other = make_session();
  EXPECT_EQ(manager_->list().size(), 2u);
  EXPECT_EQ(manager_->list({{"team", "a"}}).size(), 1u);
  EXPECT_EQ(manager_->list({{"team", "b"}}).size(), 0u);
  ASSERT_TRUE(await(manager_->remove(made->id, LayerFate::Remove)));
  EXPECT_EQ(manager_->get(made->id).error().code, Code::NotFound);
  EXPECT_EQ(await(manager_->remove(made->id, LayerFate::Remove)).error().code, Code::NotFound);
  EXPECT_EQ(manager_->list().size(), 1u);
  EXPECT_EQ(layer_count(), 1u);
  EXPECT_EQ(run(other, "echo on").output, "on\n");
}

TEST_F(ManagedTest, RequestsThatMakeNoSenseLeaveNothing) {
  const auto code = [&](const BoxRequest& request) {
    return await(manager_->create(request)).error().code;
  };
  BoxRequest request;
  request.workspaces.push_back({"relative"});
  EXPECT_EQ(code(request), Code::Invalid);
  request.workspaces[0].path = work_directory() + "/new";
  request.workspaces[0].mode = WorkspaceMode::Write;
  request.policy.name = "no-such-policy";
  EXPECT_EQ(code(request), Code::NotFound);
  request.policy.name = "./file.yaml";
  EXPECT_EQ(code(request), Code::Denied);
  request.policy.name.clear();
  request.policy.document = "version: 1\nnonsense: 3\n";
  EXPECT_EQ(code(request), Code::Invalid);
  request.policy.document.clear();
  request.backend = Backend::Microvm;
  EXPECT_EQ(code(request), Code::Unsupported);
  request.backend.reset();
  request.binds.push_back({"/no/such/source", "", WorkspaceMode::Read});
  EXPECT_EQ(code(request), Code::NotFound);
  EXPECT_FALSE(std::filesystem::exists(work_directory() + "/new"));
  EXPECT_EQ(layer_count(), 0u);
  EXPECT_EQ(manager_->counts().starting, 0u);
}

TEST_F(ManagedTest, MissingWorkspacesAreMade) {
  BoxRequest request;
  request.workspaces.push_back({work_directory() + "/a/b", WorkspaceMode::Write});
  const auto made = await(manager_->create(request));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(run(*made, "echo hi > f && cat f").output, "hi\n");
  EXPECT_EQ(on_host("a/b/f"), "hi\n");
}

TEST_F(ManagedTest, SeveralWorkspacesAndBindsHaveTheirModes) {
  for (const char* name : {"one", "two", "three"}) {
    std::filesystem::create_directory(work_directory() + "/" + name);
    put_on_host(std::string(name) + "/old", name);
  }
  BoxRequest request;
  request.workspaces.push_back({work_directory() + "/one"});
  request.workspaces.push_back({work_directory() + "/two", WorkspaceMode::Read});
  request.binds.push_back({work_directory() + "/three", "/mnt/three", WorkspaceMode::Write});
  const auto made = await(manager_->create(request));
  ASSERT_TRUE(made) << made.error().message;
  const Told told = run(*made,
                        "cat old ../two/old /mnt/three/old; echo x > old; echo y > ../two/old;"
                        "echo z > /mnt/three/old");
  EXPECT_EQ(told.output, "onetwothree");
  EXPECT_EQ(on_host("one/old"), "one");
  EXPECT_EQ(on_host("two/old"), "two");
  EXPECT_EQ(on_host("three/old"), "z\n");
}

TEST_F(ManagedTest, TheServicesOwnStateIsHidden) {
  BoxRequest request;
  request.workspaces.push_back({state_directory(), WorkspaceMode::Read});
  EXPECT_EQ(await(manager_->create(request)).error().code, Code::Denied);
  request.workspaces[0] = {place_, WorkspaceMode::Overlay};
  EXPECT_EQ(await(manager_->create(request)).error().code, Code::Denied);
  request.workspaces[0].mode = WorkspaceMode::Write;
  EXPECT_EQ(await(manager_->create(request)).error().code, Code::Denied) << "it could be moved";
  request.workspaces[0].mode = WorkspaceMode::Read;
  const auto made = await(manager_->create(request));
  ASSERT_TRUE(made) << made.error().message;
  const Told told = run(*made, "ls; ls state; cat state/sessions.db; echo x > state/x");
  EXPECT_EQ(told.output, "state\nwork\n") << "its name is there, and nothing in it";
  EXPECT_FALSE(std::filesystem::exists(state_directory() + "/x"));
}

TEST_F(ManagedTest, TheEnvironmentIsHandedInAndItsValuesAreNotWrittenDown) {
  BoxRequest request;
  request.env = {{"GREETING", "a-secret-word"}};
  const auto made = await(manager_->create(request));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(run(*made, "echo $GREETING").output, "a-secret-word\n");
  EXPECT_EQ(made->effective.env.front().value, "");
  close_manager();
  for (const char* name : {"sessions.db", "sessions.db-wal"}) {
    const auto text = read_file(state_directory() + "/" + name, 64 << 20);
    EXPECT_TRUE(!text || text->find("a-secret-word") == std::string::npos) << name;
  }
}

TEST_F(ManagedTest, ACeilingBoundsWhatIsHandedIn) {
  BoxRequest request;
  request.ceiling = authority::AuthoritySet();
  request.workspaces.push_back({work_directory()});
  EXPECT_EQ(await(manager_->create(request)).error().code, Code::Denied);
  const std::vector<authority::Capability> may{
      authority::ReadPath{*authority::AbsolutePath::parse(work_directory())}};
  request.ceiling = *authority::AuthoritySet::granting(may);
  ASSERT_TRUE(await(manager_->create(request)));
  request.workspaces[0].mode = WorkspaceMode::Write;
  EXPECT_EQ(await(manager_->create(request)).error().code, Code::Denied);
}

TEST_F(ManagedTest, ChangesWaitForACommitAndCanBeUndone) {
  put_on_host("a.txt", "one\n");
  const SessionInfo info = make_session();
  EXPECT_EQ(run(info, "echo two >> a.txt; echo new > b.txt").code, 0);
  EXPECT_EQ(on_host("a.txt"), "one\n");
  EXPECT_NE(diff_text(info.id).find("+two"), std::string::npos);
  const auto json = await(manager_->diff(info.id, {}, DiffForm::Json));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->changes, 2u);
  CommitRequest commit;
  commit.selection.only = {"a.txt"};
  const auto committed = await(manager_->commit(info.id, commit));
  ASSERT_TRUE(committed) << committed.error().message;
  EXPECT_EQ(committed->applied.size(), 1u);
  EXPECT_EQ(on_host("a.txt"), "one\ntwo\n");
  EXPECT_EQ(on_host("b.txt"), "(none)");
  ASSERT_TRUE(await(manager_->undo(info.id, {})));
  EXPECT_EQ(on_host("a.txt"), "one\n");
}

TEST_F(ManagedTest, IdleSessionsAreCollectedWithTheirLayers) {
  BoxRequest request;
  request.workspaces.push_back({work_directory()});
  request.idle_timeout = milliseconds(0);
  const SessionInfo eternal = *await(manager_->create(request));
  EXPECT_FALSE(manager_->get(eternal.id)->idle_remaining);
  request.idle_timeout = milliseconds(1500);
  const SessionInfo idle = *await(manager_->create(request));
  EXPECT_EQ(run(idle, "sleep 2; echo done").output, "done\n") << "never during a run";
  EXPECT_TRUE(manager_->get(idle.id)) << "counted from the end of the run";
  const auto session = attach(idle);
  const auto background = await(session->start_background([] {
    RunRequest slow;
    slow.code = "sleep 2";
    return slow;
  }()));
  ASSERT_TRUE(background);
  run_until([&] { return !session->background(background->run_id)->running; });
  EXPECT_TRUE(manager_->get(idle.id)) << "never with a background run";
  run_until([&] { return !manager_->get(idle.id); });
  run_until([&] { return layer_count() == 1; });
  EXPECT_TRUE(manager_->get(eternal.id));
  EXPECT_EQ(session->end()->cause, EndCause::Idle);
}

TEST_F(ManagedTest, ARestartFindsSessionsDeadWithTheirLayers) {
  put_on_host("a.txt", "one\n");
  BoxRequest request;
  request.name = "kept";
  request.labels = {{"k", "v"}};
  request.workspaces.push_back({work_directory()});
  const SessionInfo info = *await(manager_->create(request));
  EXPECT_EQ(run(info, "echo two >> a.txt").code, 0);
  close_manager();
  open_manager();
  const auto found = manager_->get(info.id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->state, SessionState::Dead);
  EXPECT_EQ(found->end->cause, EndCause::ServiceEnded);
  EXPECT_EQ(found->effective.labels, request.labels);
  EXPECT_EQ(found->runs, 1u);
  EXPECT_EQ(manager_->report(info.id)->recent_runs.size(), 1u);
  EXPECT_FALSE(manager_->attach(info.id));
  EXPECT_NE(diff_text(info.id).find("+two"), std::string::npos);
  ASSERT_TRUE(await(manager_->commit(info.id, {})));
  EXPECT_EQ(on_host("a.txt"), "one\ntwo\n");
  ASSERT_TRUE(await(manager_->remove(info.id, LayerFate::Remove)));
  EXPECT_EQ(layer_count(), 0u);
  close_manager();
  open_manager();
  EXPECT_TRUE(manager_->list().empty());
}

TEST_F(ManagedTest, TwoManagersDoNotShareADirectory) {
  const auto second = SessionManager::open(loop_, settings());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::Denied);
}

TEST_F(ManagedTest, AStoreThatIsNoneIsRefused) {
  close_manager();
  const std::string file = state_directory() + "/sessions.db";
  std::ofstream(file, std::ios::trunc) << std::string(8192, 'x');
  const auto opened = SessionManager::open(loop_, settings());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::Invalid) << opened.error().message;
  EXPECT_NE(opened.error().message.find("sessions.db"), std::string::npos);
}

TEST_F(ManagedTest, ALauncherThatDiesTakesItsSessionsAlongAndIsReplaced) {
  const SessionInfo info = make_session();
  bool is_done = false;
  Told told;
  RunRequest slow;
  slow.code = "sleep 1000";
  asio::co_spawn(loop_, run_and_tell(attach(info), slow), [&](std::exception_ptr, Told result) {
    told = std::move(result);
    is_done = true;
  });
  run_until([&] { return attach(info)->under_way() == 1; });
  ASSERT_EQ(::system(("pkill -KILL -P " + std::to_string(::getpid()) + " glovebox-launch").c_str()),
            0);
  run_until([&] { return is_done; });
  EXPECT_NE(told.problem.find("launcher"), std::string::npos) << told.problem;
  EXPECT_EQ(manager_->get(info.id)->end->cause, EndCause::LauncherGone);
  EXPECT_EQ(diff_text(info.id), "");
  EXPECT_EQ(run(make_session(), "echo again").output, "again\n");
  EXPECT_EQ(manager_->counts().launcher_restarts, 1u);
}

TEST_F(ManagedTest, ABoxOverItsMemoryDiesWithThatReason) {
  if (::getuid() != 0) GTEST_SKIP() << "needs memory cgroups, which an ordinary user has not here";
  BoxRequest request;
  request.handed = budget("memory", "64MiB");
  const SessionInfo info = *await(manager_->create(request));
  const Told told = run(info, "head -c 500000000 /dev/zero | tail -c 400000000 | wc -c");
  EXPECT_NE(told.problem.find("memory"), std::string::npos) << told.problem;
  const auto found = manager_->get(info.id);
  EXPECT_EQ(found->end->cause, EndCause::Limit);
  EXPECT_EQ(found->end->limit, launch::LimitKind::Memory);
}

TEST_F(ManagedTest, ASessionsTimeAndOutputAreBounded) {
  BoxRequest request;
  request.handed = budget("wall", "300ms");
  const SessionInfo timed = *await(manager_->create(request));
  EXPECT_NE(run(timed, "sleep 1000").problem, "");
  EXPECT_EQ(manager_->get(timed.id)->end->limit, launch::LimitKind::Wall);
  request.handed = budget("output", "10000");
  const SessionInfo quiet = *await(manager_->create(request));
  EXPECT_EQ(run(quiet, "echo few").output, "few\n");
  EXPECT_NE(run(quiet, "yes").problem, "");
  EXPECT_EQ(manager_->get(quiet.id)->end->limit, launch::LimitKind::Output);
}

TEST_F(ManagedTest, ADiskBudgetBoundsALayerThatIsNotKept) {
  BoxRequest request;
  request.workspaces.push_back({work_directory(), WorkspaceMode::Discard});
  request.handed = budget("disk", "1MiB");
  const auto made = await(manager_->create(request));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_NE(run(*made, "head -c 5000000 /dev/zero > big").code, 0);
}

TEST_F(ManagedTest, DeletingEndsWhatWaits) {
  const SessionInfo info = make_session();
  std::vector<std::string> problems;
  for (int i = 0; i < 3; ++i) {
    RunRequest slow;
    slow.code = "trap '' TERM INT; sleep 1000";
    asio::co_spawn(loop_, run_and_tell(attach(info), slow),
                   [&](std::exception_ptr, const Told& told) { problems.push_back(told.problem); });
  }
  run_until([&] { return attach(info)->under_way() == 3; });
  ASSERT_TRUE(await(manager_->remove(info.id, LayerFate::Remove)));
  run_until([&] { return problems.size() == 3; });
  for (const std::string& problem : problems) {
    EXPECT_EQ(problem, "session terminated: the session was deleted");
  }
}

TEST_F(ManagedTest, EventsAreTold) {
  std::vector<EventKind> kinds;
  manager_->observe([&](const SessionEvent& event) { kinds.push_back(event.kind); });
  const auto feed = manager_->watch();
  const SessionInfo info = make_session();
  (void)run(info, ":");
  ASSERT_TRUE(await(manager_->remove(info.id, LayerFate::Remove)));
  const std::vector<EventKind> expected{EventKind::Created, EventKind::RunStarted,
                                        EventKind::RunEnded, EventKind::Ended, EventKind::Deleted};
  EXPECT_EQ(kinds, expected);
  for (const EventKind kind : expected) {
    const auto next = await(feed->next());
    ASSERT_TRUE(next);
    EXPECT_EQ(next->event.kind, kind);
    EXPECT_EQ(next->event.session, info.id);
  }
}

TEST_F(ManagedTest, StoppingEndsEverythingAndKeepsOrForgets) {
  const SessionInfo first = make_session();
  const SessionInfo second = make_session();
  EXPECT_EQ(run(first, "echo x > f").code, 0);
  await(manager_->stop(LayerFate::Keep));
  EXPECT_EQ(attach(second)->end()->cause, EndCause::ServiceEnded);
  BoxRequest late;
  EXPECT_FALSE(await(manager_->create(late)));
  close_manager();
  EXPECT_EQ(count_descendants(), 0u);
  open_manager();
  EXPECT_EQ(manager_->list().size(), 2u);
  EXPECT_NE(diff_text(first.id).find("+x"), std::string::npos);
  await(manager_->stop(LayerFate::Remove));
  EXPECT_TRUE(manager_->list().empty());
  EXPECT_EQ(layer_count(), 0u);
}

TEST_F(ManagedTest, TheHostIsTried) {
  const auto abilities = await(manager_->probe());
  EXPECT_TRUE(abilities.available) << abilities.problem;
  EXPECT_TRUE(manager_->list().empty());
}

asio::awaitable<void> live_a_life(SessionManager& manager, std::string work, std::size_t& done,
                                  std::size_t& failed) {
  BoxRequest request;
  request.workspaces.push_back({std::move(work)});
  const auto made = co_await manager.create(std::move(request));
  if (!made) {
    ++failed;
    co_return;
  }
  for (int i = 0; i < 10; ++i) {
    RunRequest run;
    run.code = "echo $((n+=1)); echo x > f$n";
    const auto session = manager.attach(made->id);
    const Told told = co_await run_and_tell(*session, std::move(run));
    if (told.output != std::to_string(i + 1) + "\n") ++failed;
  }
  const auto removed = co_await manager.remove(made->id, LayerFate::Remove);
  ++(removed ? done : failed);
}

TEST_F(ManagedTest, AHundredSessionsLeaveNothing) {
  const SessionInfo warm = make_session();
  (void)run(warm, ":");
  ASSERT_TRUE(await(manager_->remove(warm.id, LayerFate::Remove)));
  run_until([&] { return layer_count() == 0; });
  const std::size_t descriptors = count_descriptors();
  const std::size_t processes = count_descendants();
  const std::size_t mounts = count_mounts();
  std::size_t done = 0;
  std::size_t failed = 0;
  for (int i = 0; i < 100; ++i)
    asio::co_spawn(loop_, live_a_life(*manager_, work_directory(), done, failed), asio::detached);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  loop_.restart();
  while (done + failed < 100 && std::chrono::steady_clock::now() < end)
    loop_.run_one_for(milliseconds(100));
  EXPECT_EQ(done, 100u);
  EXPECT_EQ(failed, 0u);
  EXPECT_EQ(layer_count(), 0u);
  EXPECT_EQ(manager_->counts().alive, 0u);
  run_until([&] { return count_descendants() <= processes; });
  run_until([&] { return count_descriptors() <= descriptors; });
  EXPECT_EQ(count_mounts(), mounts);
  // The launcher has some ready for the next boxes.
  for (const auto& [controller, count] : count_cgroups()) {
    EXPECT_LE(count, launch::CgroupPool::kTarget) << controller;
  }
  close_manager();
  EXPECT_TRUE(count_cgroups().empty());
}

class DeadTest : public ManagedTest {
 protected:
  static constexpr std::size_t kMost = 4;
  ManagerSettings settings() const override {
    ManagerSettings settings = ManagedTest::settings();
    settings.max_dead = kMost;
    return settings;
  }

  // One that has written something and is dead.
  std::string make_dead(const std::string& owner) {
    BoxRequest request;
    request.workspaces.push_back({work_directory(), WorkspaceMode::Overlay});
    request.labels[std::string(kOwnerLabel)] = owner;
    const auto made = await(manager_->create(request));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    EXPECT_EQ(run(*made, "echo work > file").code, 0);
    EXPECT_TRUE(await(manager_->end(made->id)));
    return made->id;
  }
};

TEST_F(DeadTest, WhoHasTheMostIsForgottenFirst) {
  const std::string oldest = make_dead("quiet");
  std::vector<std::string> many;
  for (std::size_t i = 0; i < kMost + 2; ++i) many.push_back(make_dead("busy"));
  run_until([&] { return manager_->list().size() <= kMost; });
  EXPECT_EQ(manager_->list().size(), kMost);
  EXPECT_NE(diff_text(oldest).find("+work"), std::string::npos) << "another's work is there";
  EXPECT_EQ(manager_->get(many.front()).error().code, Code::NotFound);
  EXPECT_TRUE(manager_->get(many.back())) << "of one's own the latest stay";
}

class PooledTest : public ManagedTest {
 protected:
  ManagerSettings settings() const override {
    ManagerSettings settings = ManagedTest::settings();
    settings.keep_parked = 2;
    return settings;
  }

  Result<SessionInfo> make_over(const std::string& name) {
    std::filesystem::create_directories(work_directory() + "/" + name);
    BoxRequest request;
    request.workspaces.push_back({work_directory() + "/" + name, WorkspaceMode::Overlay});
    return await(manager_->create(request));
  }
};

// Sessions over different workspaces begin alike, and each has its own.
TEST_F(PooledTest, SessionsGetBoxesThatWaitedAndTheirOwnWorkspaces) {
  constexpr int kMostTries = 100;
  for (int i = 0; i < kMostTries && manager_->counts().parked.hits < 3; ++i) {
    const std::string name = fmt::format("w{}", i);
    const auto made = make_over(name);
    ASSERT_TRUE(made) << made.error().message;
    const Told told = run(*made, "pwd; ls -A ..; echo mine > note");
    EXPECT_EQ(told.output, work_directory() + "/" + name + "\n" + name + "\n");
    EXPECT_EQ(told.code, 0) << told.error;
    EXPECT_EQ(on_host(name + "/note"), "(none)");
    EXPECT_NE(diff_text(made->id).find("+mine"), std::string::npos);
    ASSERT_TRUE(await(manager_->remove(made->id, LayerFate::Remove)));
  }
  const auto counts = manager_->counts().parked;
  EXPECT_GE(counts.hits, 3u);
  EXPECT_GE(counts.misses, 1u) << "nobody waited for the first";
  EXPECT_GE(counts.refills, counts.hits);
  EXPECT_LE(counts.parked, 2u);
}

}  // namespace
}  // namespace glovebox::session
