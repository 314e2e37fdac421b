// A service that is killed at random moments: it, its launcher, or an agent of its boxes.
//
// The program starts itself again as the service, lets it work, kills something, and then looks at
// what is left: no process, no mount, no layer that is in no list, and every session either as it
// was told to its caller or not there at all.
#include "fixture.h"

#include "async/co_try.h"
#include "base/file.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kRounds = 200;

struct Places {
  std::string state;
  std::string work;
};

ManagerSettings settings_for(const Places& places) {
  const char* launcher = std::getenv("GLOVEBOX_LAUNCHER");
  ManagerSettings settings;
  settings.launcher = launcher == nullptr ? "glovebox-launcher" : launcher;
  settings.state_directory = places.state;
  return settings;
}

// One line to the parent, in one write.
void say(const std::string& line) {
  if (::write(1, line.data(), line.size()) < 0) std::_Exit(3);
}

// Creates, runs, commits and deletes for ever, and says what it was told is done.
asio::awaitable<void> work_for_ever(SessionManager& manager, Places places, int number) {
  for (int round = 0;; ++round) {
    BoxRequest request;
    request.workspaces.push_back({places.work});
    const auto made = co_await manager.create(std::move(request));
    if (!made) continue;  // the launcher was killed; the next one is there soon
    say("created " + made->id + "\n");
    const auto session = manager.attach(made->id);
    RunRequest run;
    run.code = "echo " + std::to_string(round) + " > from-" + std::to_string(number);
    if (session) (void)co_await run_and_tell(*session, std::move(run));
    CommitRequest commit;
    if (round % 3 == 0) (void)co_await manager.commit(made->id, std::move(commit));
    if (round % 4 == 3) continue;  // some stay
    say("deleting " + made->id + "\n");
    const auto removed = co_await manager.remove(made->id, LayerFate::Remove);
    if (removed) say("deleted " + made->id + "\n");
  }
}

int be_service(const Places& places) {
  std::signal(SIGPIPE, SIG_IGN);
  asio::io_context loop(1);
  auto manager = SessionManager::open(loop, settings_for(places));
  if (!manager) {
    say("refused " + manager.error().message + "\n");
    return 1;
  }
  say("ready\n");
  for (int i = 0; i < 3; ++i) {
    asio::co_spawn(loop, work_for_ever(**manager, places, i), asio::detached);
  }
  loop.run();
  return 0;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  const auto text = read_file(fmt::format("/proc/{}/task/{}/children", parent, parent));
  if (!text) return found;
  std::istringstream rest(*text);
  pid_t pid = 0;
  while (rest >> pid) found.push_back(pid);
  return found;
}

// Whatever became ours because its parent died is waited for.
void reap() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

class Service {
 public:
  explicit Service(const Places& places) {
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    told_ = UniqueFd(pipe[0]);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, pipe[1], 1);
    std::string words[] = {"service", "--serve", places.state, places.work};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    if (::posix_spawn(&pid_, "/proc/self/exe", &files, nullptr, argv, environ) != 0) {
      throw std::runtime_error("no service");
    }
    ::posix_spawn_file_actions_destroy(&files);
    ::close(pipe[1]);
  }

  pid_t pid() const { return pid_; }
  bool await_ready() {
    char line[6] = {};
    return ::read(told_.get(), line, 6) == 6 && std::string_view(line, 6) == "ready\n";
  }
  // Everything it said, once it is dead.
  std::string kill_and_hear() {
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
    // A process that outlived it may hold the other end, which is found out later.
    ::fcntl(told_.get(), F_SETFL, O_NONBLOCK);
    std::string told;
    std::array<char, 4096> buffer;
    for (ssize_t size = 0; (size = ::read(told_.get(), buffer.data(), buffer.size())) > 0;) {
      told.append(buffer.data(), static_cast<std::size_t>(size));
    }
    return told;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd told_;
};

// The launcher, or the agent of one of its boxes, or nothing but the service itself.
void kill_something(pid_t service, int what, std::mt19937& random) {
  const std::vector<pid_t> launchers = children_of(service);
  if (launchers.empty()) return;
  if (what == 1) ::kill(launchers.front(), SIGKILL);
  if (what != 2) return;
  const std::vector<pid_t> boxes = children_of(launchers.front());
  if (!boxes.empty()) ::kill(boxes[random() % boxes.size()], SIGKILL);
}

class ChaosTest : public ManagerTest {
 protected:
  void SetUp() override { places_ = {state_directory(), work_directory()}; }
  // What was told to callers, compared with what the next service finds.
  void compare(const std::string& told);
  Places places_;
  std::set<std::string> present_;
};

void ChaosTest::compare(const std::string& told) {
  std::set<std::string> unsure;
  std::istringstream lines(told);
  std::string what;
  std::string id;
  while (lines >> what >> id) {
    if (what == "created") present_.insert(id);
    if (what == "deleting") unsure.insert(id);
    if (what == "deleted") unsure.erase(id);
    if (what == "deleting") present_.erase(id);
  }
  open_manager();
  ASSERT_TRUE(manager_);
  std::set<std::string> found;
  std::set<std::string> layers;
  for (const SessionInfo& info : manager_->list()) {
    found.insert(info.id);
    EXPECT_EQ(info.state, SessionState::Dead);
    for (const WorkspaceInfo& place : info.workspaces) layers.insert(place.layer_id);
  }
  for (const std::string& one : present_) {
    EXPECT_TRUE(found.contains(one)) << one << " was told to its caller, and is lost";
  }
  for (const auto& entry : std::filesystem::directory_iterator(places_.state + "/layers")) {
    EXPECT_TRUE(layers.contains(entry.path().filename())) << entry.path() << " is nobody's";
  }
  for (const std::string& one : found) {
    const auto diff = await(manager_->diff(one, {}, DiffForm::Json));
    EXPECT_TRUE(diff) << diff.error().message;
    (void)await(manager_->remove(one, LayerFate::Remove));
  }
  present_.clear();
  close_manager();
}

TEST_F(ChaosTest, WhateverIsKilledNothingIsLeftAndNothingIsLost) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  std::mt19937 random(std::random_device{}());
  const std::size_t mounts = count_mounts();
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    Service service(places_);
    ASSERT_TRUE(service.await_ready()) << "round " << round;
    const int what = static_cast<int>(random() % 3);
    ::usleep(static_cast<useconds_t>(random() % 60'000));
    for (const pid_t launcher : children_of(service.pid())) remember_launcher(launcher);
    kill_something(service.pid(), what, random);
    if (what != 0) ::usleep(static_cast<useconds_t>(random() % 30'000));
    for (const pid_t launcher : children_of(service.pid())) remember_launcher(launcher);
    const std::string told = service.kill_and_hear();
    const auto end = steady_clock::now() + std::chrono::seconds(10);
    for (reap(); count_descendants() > 0 && steady_clock::now() < end; reap()) ::usleep(1000);
    EXPECT_EQ(count_descendants(), 0u) << "round " << round << ", killed " << what;
    compare(told);
    reap();
  }
  EXPECT_EQ(count_mounts(), mounts);
  EXPECT_TRUE(count_cgroups().empty()) << "the next service removes what the killed ones left";
  for (const auto& entry : std::filesystem::directory_iterator(places_.work)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name.starts_with("from-")) << name << " is half a commit";
  }
}

}  // namespace
}  // namespace glovebox::session

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--serve") {
    return glovebox::session::be_service({argv[2], argv[3]});
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
