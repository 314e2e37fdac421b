// A service that is killed at any step of a recycle, a fork or a restore leaves the old state or
// the new one. The test has a copy of itself be that service.
#include "state/state_fixture.h"

#include <cstdlib>
#include <set>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

constexpr int kCrashed = 77;

class CrashTest : public StateTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {}  // the manager is opened where it is needed

  std::string checkpoint_path() const { return place("file.checkpoint"); }
  static checkpoint::Key key() { return *checkpoint::parse_key(std::string(64, 'a')); }

  // What a service of its own does; it ends in the middle of its step number `crash_at`.
  [[noreturn]] void act_and_crash(const std::string& id, int crash_at) {
    int steps = 0;
    ManagerSettings chosen = settings();
    chosen.on_step = [&steps, crash_at](std::string_view) {
      if (++steps == crash_at) ::_exit(kCrashed);
    };
    auto opened = SessionManager::open(loop_, chosen);
    if (!opened) ::_exit(1);
    manager_ = *std::move(opened);
    const std::string what = GetParam();
    bool is_done = false;
    RecycleRequest recycle;
    if (what == "drop") recycle.layers = Recycling::DropLayers;
    if (what == "fork") is_done = await(manager_->fork(id, ForkRequest{.count = 2})).has_value();
    if (what == "recycle" || what == "drop")
      is_done = await(manager_->recycle(id, recycle)).has_value();
    if (what == "restore") {
      RestoreRequest request{.key = key(), .tenant = ""};
      UniqueFd file = *open_file(checkpoint_path(), O_RDONLY);
      is_done = await(manager_->restore(std::move(file), std::move(request))).has_value();
    }
    ::_exit(is_done ? 0 : 2);
  }
};

TEST_P(CrashTest, LeavesTheOldStateOrTheNew) {
  put_on_host(work_directory() + "/original", "original\n");
  open_manager();
  const SessionInfo made = make_session();
  ASSERT_EQ(run(made, "echo written > file; rm original").code, 0);
  {
    CheckpointRequest request{.key = key(), .tenant = ""};
    const auto file = await(manager_->checkpoint(made.id, std::move(request)));
    ASSERT_TRUE(file) << file.error().message;
    put_on_host(checkpoint_path(), *read_fd(file->file, 1 << 24));
  }
  await(manager_->stop(LayerFate::Keep));
  close_manager();

  int crashes = 0;
  for (int crash_at = 1; crash_at < 40; ++crash_at) {
    SCOPED_TRACE(crash_at);
    loop_.notify_fork(asio::execution_context::fork_prepare);
    const pid_t child = ::fork();
    if (child == 0) {
      loop_.notify_fork(asio::execution_context::fork_child);
      act_and_crash(made.id, crash_at);
    }
    loop_.notify_fork(asio::execution_context::fork_parent);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const int code = WEXITSTATUS(status);
    ASSERT_TRUE(WIFEXITED(status) && (code == kCrashed || code == 0)) << status;
    if (code == kCrashed) ++crashes;

    open_manager();
    const auto found = manager_->get(made.id);
    ASSERT_TRUE(found) << "the session is there in any case";
    // Every layer belongs to a session, and every session has its layers.
    std::set<std::string> known;
    for (const SessionInfo& info : manager_->list()) {
      EXPECT_EQ(info.state, SessionState::Dead);
      for (const WorkspaceInfo& workspace : info.workspaces) {
        known.insert(workspace.layer_id);
        known.insert(workspace.below.begin(), workspace.below.end());
      }
    }
    const std::vector<std::string> there = layers();
    EXPECT_EQ(std::set<std::string>(there.begin(), there.end()), known);
    const std::string changes = diff_text(made.id);
    const bool is_old = changes.find("+written") != std::string::npos;
    const bool is_dropped = changes.empty();
    EXPECT_TRUE(is_old || (is_dropped && std::string(GetParam()) == "drop")) << changes;
    for (const SessionInfo& info : manager_->list()) {
      if (info.id == made.id) continue;
      EXPECT_NE(diff_text(info.id).find("+written"), std::string::npos) << "a whole one";
      ASSERT_TRUE(await(manager_->remove(info.id, LayerFate::Remove)));
    }
    EXPECT_EQ(on_host("original"), "original\n");
    await(manager_->stop(LayerFate::Keep));
    close_manager();
    if (code == 0) break;
  }
  EXPECT_GE(crashes, 2);
  open_manager();
  ASSERT_TRUE(await(manager_->remove(made.id, LayerFate::Remove)));
  EXPECT_TRUE(layers().empty());
}

INSTANTIATE_TEST_SUITE_P(Acts, CrashTest, testing::Values("recycle", "drop", "fork", "restore"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace glovebox::session
