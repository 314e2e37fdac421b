// Budgets of disk and CPU time in sessions, and what is known of both while they run.
#include "fixture.h"

#include "async/co_try.h"
#include "authority/terms.h"
#include "base/file.h"

#include <cerrno>

#include <unistd.h>

namespace glovebox::session {
namespace {

authority::AuthoritySet budget(std::string_view word, std::string_view amount) {
  const std::vector<authority::Capability> one{*authority::parse_term(word, amount)};
  return *authority::AuthoritySet::granting(one);
}

class QuotaTest : public ManagerTest {
 protected:
  SessionInfo bounded(std::string_view kind, std::string_view amount) {
    BoxRequest request;
    request.workspaces.push_back({work_directory()});
    request.handed = budget(kind, amount);
    auto made = await(manager_->create(std::move(request)));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    if (!made) throw std::runtime_error("no session");
    return *std::move(made);
  }
  std::string diff_text(const std::string& id) {
    const auto body = await(manager_->diff(id, {}, DiffForm::Unified));
    if (!body) return body.error().message;
    return *read_fd(body->file, 1 << 20);
  }
  std::string on_host(const std::string& name) {
    const auto text = read_file(work_directory() + "/" + name);
    return text ? *text : "(none)";
  }
  bool is_in_memory() const {
    for (const auto& entry : std::filesystem::directory_iterator(state_directory() + "/layers")) {
      if (std::filesystem::exists(entry.path() / "in-memory")) return true;
    }
    return false;
  }
};

asio::awaitable<Result<RunResult>> run_quietly(std::shared_ptr<LiveSession> session,
                                               std::string code) {
  Collect collect;
  RunRequest request;
  request.code = std::move(code);
  co_return co_await session->run(std::move(request), collect);
}

asio::awaitable<Result<void>> put(std::shared_ptr<LiveSession> session, std::string path,
                                  std::size_t size) {
  guest::StartJob job;
  job.kind = guest::JobKind::Write;
  job.path = std::move(path);
  CO_TRY(const auto live, co_await session->start_job(job));
  const std::string text(size, 'x');
  CO_TRY_VOID(co_await live->write(text));
  CO_TRY_VOID(co_await live->finish());
  co_return Result<void>();
}

TEST_F(QuotaTest, RunsAndFilesEndAtTheSameBudget) {
  const SessionInfo info = bounded("disk", "4MiB");
  const auto session = attach(info);
  ASSERT_TRUE(await(put(session, "small", 1'000'000)));
  const auto over = await(run_quietly(session, "head -c 8000000 /dev/zero > big"));
  ASSERT_TRUE(over);
  EXPECT_NE(over->code, 0);
  EXPECT_EQ(over->limit, launch::LimitKind::Disk);
  const auto refused = await(put(session, "more", 8'000'000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().os_errno, ENOSPC) << refused.error().message;
  EXPECT_LT(manager_->report(info.id)->usage.disk_free_bytes, 1'000'000u);
  EXPECT_EQ(run(info, "rm big; ls").output, "small\n") << "there is room again";
  const auto fine = await(run_quietly(session, "head -c 2000000 /dev/zero > big; false"));
  EXPECT_EQ(fine->limit, std::nullopt);
}

TEST_F(QuotaTest, InodesAreBounded) {
  const SessionInfo info = bounded("inodes", "100");
  EXPECT_EQ(run(info, "i=0; while [ $i -lt 50 ]; do : > f$i; i=$((i+1)); done").code, 0);
  EXPECT_NE(run(info, "i=0; while [ $i -lt 99 ]; do : > g$i || exit 3; i=$((i+1)); done").code, 0);
}

TEST_F(QuotaTest, ChangesInMemoryAreShownCommittedAndUndone) {
  const SessionInfo info = bounded("disk", "4MiB");
  EXPECT_EQ(run(info, "echo made > made").code, 0);
  EXPECT_TRUE(is_in_memory());
  EXPECT_NE(diff_text(info.id).find("+made"), std::string::npos) << diff_text(info.id);
  CommitRequest commit;
  const auto done = await(manager_->commit(info.id, std::move(commit)));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(on_host("made"), "made\n");
  LayerChoice first;
  ASSERT_TRUE(await(manager_->undo(info.id, first)));
  EXPECT_EQ(on_host("made"), "(none)");
}

TEST_F(QuotaTest, WhenTheBoxEndsTheChangesMoveToTheDiskAndSurviveTheService) {
  const SessionInfo info = bounded("disk", "4MiB");
  EXPECT_EQ(run(info, "echo made > made").code, 0);
  ASSERT_TRUE(await(manager_->end(info.id)));
  run_until([&] { return !is_in_memory(); });
  EXPECT_NE(diff_text(info.id).find("+made"), std::string::npos);
  close_manager();
  open_manager();
  EXPECT_NE(diff_text(info.id).find("+made"), std::string::npos) << diff_text(info.id);
}

// A box that could not be taken out of memory would keep it for as long as its session is known.
TEST_F(QuotaTest, WhatFitsOnNoDiskIsLeftOutAndTold) {
  const SessionInfo info = bounded("disk", "4MiB");
  EXPECT_EQ(run(info,
                "echo made > made; truncate -s 9223372036854775807 huge;"
                "i=0; while [ $i -lt 400 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done")
                .code,
            0);
  ASSERT_TRUE(await(manager_->end(info.id)));
  run_until([&] { return !is_in_memory(); });
  run_until(
      [&] { return manager_->get(info.id)->end->sentence.find("gone") != std::string::npos; });
  const std::string upper =
      state_directory() + "/layers/" + info.workspaces.front().layer_id + "/box/upper";
  EXPECT_EQ(read_file(upper + "/made").value_or(""), "made\n") << "the rest is kept";
  EXPECT_TRUE(std::filesystem::is_directory(upper + "/d/d/d"));
}

TEST_F(QuotaTest, AServiceThatIsStoppedTakesThemOutOfMemoryFirst) {
  const SessionInfo info = bounded("disk", "4MiB");
  EXPECT_EQ(run(info, "echo made > made").code, 0);
  await(manager_->stop(LayerFate::Keep));
  EXPECT_FALSE(is_in_memory());
  close_manager();
  open_manager();
  EXPECT_NE(diff_text(info.id).find("+made"), std::string::npos) << diff_text(info.id);
}

TEST_F(QuotaTest, AServiceThatIsKilledLosesWhatWasInMemoryAndSaysSo) {
  const SessionInfo info = bounded("disk", "4MiB");
  EXPECT_EQ(run(info, "echo made > made").code, 0);
  close_manager();
  open_manager();
  EXPECT_NE(diff_text(info.id).find("was in memory"), std::string::npos) << diff_text(info.id);
  EXPECT_TRUE(await(manager_->remove(info.id, LayerFate::Remove)));
}

TEST_F(QuotaTest, AnImageSurvivesTheService) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root, who may mount images";
  const SessionInfo info = bounded("disk", "300MiB");
  const auto session = attach(info);
  EXPECT_EQ(run(info, "echo made > made").code, 0);
  const auto over = await(run_quietly(session, "head -c 400000000 /dev/zero > big"));
  EXPECT_NE(over->code, 0);
  EXPECT_EQ(over->limit, launch::LimitKind::Disk);
  EXPECT_EQ(run(info, "rm big").code, 0);
  EXPECT_NE(diff_text(info.id).find("+made"), std::string::npos) << "while the box lives";
  close_manager();
  open_manager();
  EXPECT_NE(diff_text(info.id).find("+made"), std::string::npos) << diff_text(info.id);
  CommitRequest commit;
  ASSERT_TRUE(await(manager_->commit(info.id, std::move(commit))));
  EXPECT_EQ(on_host("made"), "made\n");
  EXPECT_TRUE(await(manager_->remove(info.id, LayerFate::Remove)));
}

class FullTest : public QuotaTest {
 protected:
  ManagerSettings settings() const override {
    ManagerSettings settings = ManagerTest::settings();
    settings.most_layer_bytes = 30'000'000;
    return settings;
  }
};

TEST_F(FullTest, WhoeverFillsTheDiskOfTheServiceEnds) {
  const SessionInfo small = make_session();
  EXPECT_EQ(run(small, "head -c 1000000 /dev/zero > some").code, 0);
  const SessionInfo large = make_session();
  const Told told = run(large,
                        "i=0; while :; do head -c 4000000 /dev/zero > big$i; i=$((i+1)); "
                        "sleep 0.01; done");
  EXPECT_NE(told.problem.find("disk"), std::string::npos) << told.problem;
  EXPECT_EQ(manager_->get(large.id)->end->limit, launch::LimitKind::Disk);
  EXPECT_EQ(run(small, "ls").output, "some\n") << "the others go on";
}

TEST_F(FullTest, ATreeWithoutAnEndEndsItsSession) {
  const SessionInfo good = make_session();
  const SessionInfo deep = make_session();
  const Told told = run(deep,
                        "i=0; while [ $i -lt 3000 ]; do mkdir d && cd -P d || exit 1; i=$((i+1)); "
                        "done; sleep 1000");
  EXPECT_NE(told.problem.find("disk"), std::string::npos) << told.problem;
  EXPECT_EQ(manager_->get(deep.id)->end->limit, launch::LimitKind::Disk);
  EXPECT_EQ(run(good, "echo here").output, "here\n") << "the others go on";
}

TEST_F(FullTest, ADirectoryThatIsShutHidesNothing) {
  const SessionInfo info = make_session();
  const std::string shut =
      "mkdir d; head -c 20000000 /dev/zero > d/before; exec 4>d/file; sleep 0.5; chmod 000 d; "
      "echo done";
  EXPECT_EQ(run(info, shut).output, "done\n");
  ASSERT_TRUE(await(manager_->layer_bytes()));
  EXPECT_EQ(run(info, "echo here").output, "here\n") << "a mode is nobody's end";
  const Told told = run(info, "while :; do head -c 4000000 /dev/zero >&4; sleep 0.01; done");
  EXPECT_NE(told.problem.find("disk"), std::string::npos) << told.problem;
  EXPECT_EQ(manager_->get(info.id)->end->limit, launch::LimitKind::Disk);
}

TEST_F(QuotaTest, CpuTimeThatIsUsedUpEndsTheSession) {
  if (::getuid() != 0) GTEST_SKIP() << "needs CPU accounting, which an ordinary user has not here";
  const SessionInfo info = bounded("cpu", "400ms");
  EXPECT_EQ(run(info, "echo fine").output, "fine\n");
  const auto before = manager_->report(info.id)->usage;
  EXPECT_GT(before.cpu_ns.value_or(0), 0u);
  EXPECT_GT(before.memory_bytes.value_or(0), 0u);
  const Told told = run(info, "while :; do :; done");
  EXPECT_NE(told.problem.find("CPU time"), std::string::npos) << told.problem;
  const auto found = manager_->get(info.id);
  EXPECT_EQ(found->end->cause, EndCause::Limit);
  EXPECT_EQ(found->end->limit, launch::LimitKind::Cpu);
  const auto used = manager_->report(info.id)->usage.cpu_ns.value_or(0);
  EXPECT_GE(used, 400'000'000u);
  EXPECT_LT(used, 900'000'000u) << "looked at too seldom";
}

TEST_F(QuotaTest, CpuTimeOfManyProcessesCountsTogether) {
  if (::getuid() != 0) GTEST_SKIP() << "needs CPU accounting, which an ordinary user has not here";
  const SessionInfo info = bounded("cpu", "600ms");
  const Told told = run(info, "for i in 1 2 3 4; do (while :; do :; done) & done; wait");
  EXPECT_NE(told.problem.find("CPU time"), std::string::npos) << told.problem;
}

}  // namespace
}  // namespace glovebox::session
