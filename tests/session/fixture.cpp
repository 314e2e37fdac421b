#include "fixture.h"

#include "base/file.h"
#include "support/process.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

std::string launcher_program() {
  const char* path = std::getenv("GLOVEBOX_LAUNCHER");
  return path == nullptr ? "glovebox-launcher" : path;
}

}  // namespace

ManagerTest::ManagerTest() {
  std::signal(SIGPIPE, SIG_IGN);
  std::string name = "/tmp/glovebox-session-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no place to test in");
  place_ = name;
  std::filesystem::create_directory(work_directory());
}

ManagerTest::~ManagerTest() {
  // Layers have directories that their owner cannot enter; the code that made them knows how to go
  // about it.
  if (manager_) await(manager_->stop(LayerFate::Remove));
  manager_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(place_, ignored);
}

void ManagerTest::SetUp() { open_manager(); }

ManagerSettings ManagerTest::settings() const {
  ManagerSettings settings;
  settings.launcher = launcher_program();
  settings.state_directory = state_directory();
  settings.sweep_period = std::chrono::milliseconds(20);
  return settings;
}

void ManagerTest::open_manager() {
  auto opened = SessionManager::open(loop_, settings());
  ASSERT_TRUE(opened) << opened.error().message;
  manager_ = *std::move(opened);
  const auto children = read_file("/proc/thread-self/children");
  std::istringstream pids(children ? *children : "");
  for (pid_t pid = 0; pids >> pid;) remember_launcher(pid);
}

void ManagerTest::await(asio::awaitable<void> work) {
  bool is_done = false;
  std::exception_ptr problem;
  asio::co_spawn(loop_, std::move(work), [&](std::exception_ptr thrown) {
    problem = thrown;
    is_done = true;
  });
  loop_.restart();
  while (!is_done) loop_.run_one();
  if (problem) std::rethrow_exception(problem);
}

void ManagerTest::run_until(const std::function<bool()>& is_true) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  loop_.restart();
  while (!is_true()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "it did not happen in time";
    loop_.run_one_for(std::chrono::milliseconds(50));
  }
}

std::vector<std::string> ManagerTest::settled_layers() {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (;;) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(state_directory() + "/layers")) {
      names.push_back(entry.path().filename());
    }
    const bool is_settled = std::ranges::none_of(
        names, [](const std::string& name) { return name.starts_with(".removing-"); });
    if (is_settled || std::chrono::steady_clock::now() > patience) return names;
    if (loop_.stopped()) loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(1));
  }
}

SessionInfo ManagerTest::make_session(WorkspaceMode mode) {
  BoxRequest request;
  request.workspaces.push_back({work_directory(), mode});
  auto made = await(manager_->create(std::move(request)));
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  if (!made) throw std::runtime_error("no session");
  return *std::move(made);
}

std::shared_ptr<LiveSession> ManagerTest::attach(const SessionInfo& info) {
  auto session = manager_->attach(info.id);
  if (!session) throw std::runtime_error(session.error().message);
  return *std::move(session);
}

asio::awaitable<Told> run_and_tell(std::shared_ptr<LiveSession> session, RunRequest request) {
  Collect collect;
  const auto result = co_await session->run(std::move(request), collect);
  Told told;
  told.output = std::move(collect.output);
  told.error = std::move(collect.error);
  if (result) {
    told.code = result->code;
    told.timed_out = result->timed_out;
    told.canceled = result->canceled;
  } else {
    told.problem = result.error().message;
  }
  co_return told;
}

Told ManagerTest::run(const SessionInfo& info, RunRequest request) {
  return await(run_and_tell(attach(info), std::move(request)));
}

Told ManagerTest::run(const SessionInfo& info, const std::string& code) {
  RunRequest request;
  request.code = code;
  return run(info, std::move(request));
}

std::size_t count_descriptors() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::size_t count_descendants() { return test::descendants_of(::getpid()).size(); }

std::size_t count_mounts() {
  const auto text = read_file("/proc/self/mountinfo");
  return static_cast<std::size_t>(std::ranges::count(*text, '\n'));
}

namespace {

std::set<pid_t>& launchers() {
  static std::set<pid_t> all;
  return all;
}

}  // namespace

void remember_launcher(pid_t pid) { launchers().insert(pid); }

// Where controllers are mounted one by one, each has its own; else there is one tree for all.
std::map<std::string, std::size_t> count_cgroups() {
  std::map<std::string, std::size_t> found;
  std::error_code ignored;
  const auto count = [&](const std::filesystem::path& tree) {
    for (const auto& entry : std::filesystem::directory_iterator(tree, ignored)) {
      const std::string name = entry.path().filename();
      for (const pid_t pid : launchers()) {
        if (name.starts_with("glovebox-" + std::to_string(pid) + "-")) ++found[tree.filename()];
      }
    }
  };
  count("/sys/fs/cgroup");
  for (const auto& entry : std::filesystem::directory_iterator("/sys/fs/cgroup", ignored)) {
    if (entry.is_directory(ignored)) count(entry.path());
  }
  return found;
}

std::size_t resident_bytes() {
  const auto statm = read_file("/proc/self/statm");
  std::istringstream text(*statm);
  std::size_t size = 0;
  std::size_t resident = 0;
  text >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace glovebox::session
