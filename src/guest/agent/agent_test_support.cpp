#include "guest/agent/agent_test_support.h"

#include "base/file.h"
#include "guest/agent/agent.h"
#include "guest/files/file_jobs.h"
#include "plan/filter/filter_rules.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace glovebox::guest {
namespace {

constexpr uid_t kBoxUid = 54321;

void write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || ::write(fd, text.data(), text.size()) < 0) ::_exit(101);
  ::close(fd);
}

bool enter_namespaces() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  const int user = uid == 0 ? 0 : CLONE_NEWUSER;
  if (::unshare(user | CLONE_NEWPID | CLONE_NEWNS) != 0) return false;
  if (uid == 0) return true;
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", fmt::format("{} {} 1", uid, uid));
  write_text("/proc/self/gid_map", fmt::format("{} {} 1", gid, gid));
  return true;
}

bool give_up_power() {
  if (::geteuid() == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(kBoxUid, kBoxUid, kBoxUid) != 0 ||
        ::setresuid(kBoxUid, kBoxUid, kBoxUid) != 0) {
      return false;
    }
  }
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return false;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  std::vector<sock_filter> filter = plan::compile_filter(plan::default_filter_rules());
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

// PID 1 of the test's box.
[[noreturn]] void be_agent(AgentOptions options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    ::_exit(102);
  }
  if (!give_up_power()) ::_exit(103);
  ::_exit(run_agent(std::move(options)));
}

}  // namespace

std::string to_text(const RunResult& result) {
  if (result.refused) return fmt::format("refused: {}", result.refused->message);
  const char* state = result.end.shell == ShellState::Kept    ? " kept"
                      : result.end.shell == ShellState::Fresh ? " fresh"
                                                              : "";
  const char* kind = result.end.kind == EndKind::Signaled ? "signal " : "";
  return fmt::format("{}{}{} out=[{}] err=[{}]", kind, result.end.value, state, result.output,
                     result.error);
}

TestAgent::TestAgent(const Options& options) {
  ::signal(SIGPIPE, SIG_IGN);  // as a supervisor has it
  // As in a box, whose scratch space is in memory.
  std::string name = fmt::format("{}/glovebox-guest-XXXXXX",
                                 ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  root_ = name;
  ::chmod(root_.c_str(), 0755);
  for (const std::string& dir : {workspace(), scratch()}) {
    ::mkdir(dir.c_str(), 0755);
    if (::geteuid() == 0 && ::chown(dir.c_str(), kBoxUid, kBoxUid) != 0) std::abort();
  }
  std::array<int, 2> pair{};
  const int type = options.transport == Transport::Packets ? SOCK_SEQPACKET : SOCK_STREAM;
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair.data()) != 0) std::abort();
  // The middle process is only there to be the parent in the right pid namespace.
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) std::abort();
  const pid_t middle = ::fork();
  if (middle == 0) {
    ::close(pair[0]);
    if (!enter_namespaces()) ::_exit(100);
    const pid_t init = ::fork();
    if (init == 0) {
      AgentOptions agent;
      agent.socket = UniqueFd(pair[1]);
      agent.transport = options.transport;
      agent.scratch = {"/nonexistent", scratch()};
      be_agent(std::move(agent));
    }
    (void)!::write(report[1], &init, sizeof(init));
    int status = 0;
    ::waitpid(init, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
  }
  ::close(pair[1]);
  ::close(report[1]);
  if (::read(report[0], &pid_, sizeof(pid_)) != sizeof(pid_)) std::abort();
  ::close(report[0]);
  link_ = std::make_unique<AgentLink>(UniqueFd(pair[0]), options.transport);
  EXPECT_TRUE(link_->greet(Hello{0, workspace(), options.shells, options.env}));
  bool ready = false;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!ready && std::chrono::steady_clock::now() < until) {
    pollfd wait{link_->fd().get(), POLLIN, 0};
    ::poll(&wait, 1, 1000);
    auto events = link_->on_ready();
    if (!events) break;
    for (AgentEvent& event : *events) {
      if (const auto* said = std::get_if<AgentReady>(&event)) {
        ready = true;
        shell_ = said->shell;
      }
      if (std::holds_alternative<AgentGone>(event)) gone_ = true;
    }
    if (gone_) break;
  }
  EXPECT_TRUE(ready) << "the agent did not get ready";
}

TestAgent::~TestAgent() {
  link_.reset();  // the agent ends with its line, and the box with the agent
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

void TestAgent::drain(UniqueFd& fd, std::string& text, bool& ended) {
  std::array<char, std::size_t{64} << 10> buffer;
  while (fd) {
    const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
    if (size < 0) return;
    if (size == 0) {
      fd.reset();
      ended = true;
      return;
    }
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

void TestAgent::take(AgentEvent event) {
  if (auto* begun = std::get_if<RunBegun>(&event)) {
    Watched& run = runs_[begun->run];
    run.begun = true;
    run.output = std::move(begun->output);
    run.error = std::move(begun->error);
    run.input = std::move(begun->input);
  } else if (auto* over = std::get_if<RunOver>(&event)) {
    Watched& run = runs_[over->run];
    run.over = true;
    run.result.end = over->end;
    drain(run.output, run.result.output, run.output_ended);
    drain(run.error, run.result.error, run.error_ended);
  } else if (auto* whole = std::get_if<RunWhole>(&event)) {
    Watched& run = runs_[whole->run];
    run.begun = run.over = run.came_whole = run.output_ended = run.error_ended = true;
    run.result.end = whole->end;
    run.result.output = std::move(whole->output);
    run.result.error = std::move(whole->error);
  } else if (auto* refused = std::get_if<RequestRefused>(&event)) {
    if (jobs_.contains(refused->id)) {
      jobs_[refused->id].over.job = refused->id;
      jobs_[refused->id].over.error = refused->error;
      return;
    }
    runs_[refused->id].over = true;
    runs_[refused->id].result.refused = refused->error;
  } else if (auto* job = std::get_if<JobOver>(&event)) {
    jobs_[job->job].over = std::move(*job);
  } else if (auto* output = std::get_if<AgentOutput>(&event)) {
    EXPECT_TRUE(link_->give_credit(output->id, output->stream, output->bytes.size()));
    if (jobs_.contains(output->id)) {
      jobs_[output->id].output += output->bytes;
    } else {
      RunResult& result = runs_[output->id].result;
      (output->stream == Stream::Output ? result.output : result.error) += output->bytes;
    }
  } else if (auto* end = std::get_if<AgentOutputEnd>(&event)) {
    Watched& run = runs_[end->id];
    (end->stream == Stream::Output ? run.output_ended : run.error_ended) = true;
  } else if (std::holds_alternative<AgentGone>(event)) {
    gone_ = true;
  }
}

void TestAgent::serve_once(int timeout_ms) {
  const short line_events = static_cast<short>(link_->wants_write() ? POLLIN | POLLOUT : POLLIN);
  std::vector<pollfd> waits = {{link_->fd().get(), line_events, 0}};
  for (const auto& [id, run] : runs_) {
    if (run.output) waits.push_back({run.output.get(), POLLIN, 0});
    if (run.error) waits.push_back({run.error.get(), POLLIN, 0});
  }
  ::poll(waits.data(), waits.size(), timeout_ms);
  auto events = link_->on_ready();
  if (!events) {
    ADD_FAILURE() << events.error().message;
    gone_ = true;
    return;
  }
  for (AgentEvent& event : *events) take(std::move(event));
  for (auto& [id, run] : runs_) {
    drain(run.output, run.result.output, run.output_ended);
    drain(run.error, run.result.error, run.error_ended);
  }
  for (auto& [id, text] : pending_input_) {
    const std::size_t part = std::min<std::uint64_t>(text.size(), link_->input_credit(id));
    if (part == 0) continue;
    if (!link_->write_input(id, std::string_view(text).substr(0, part))) continue;
    text.erase(0, part);
    if (text.empty()) (void)link_->end_input(id);
  }
}

bool TestAgent::serve_until(const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (gone_ || std::chrono::steady_clock::now() > until) return false;
    serve_once(100);
  }
  return true;
}

Id TestAgent::start(StartRun run) {
  auto id = link_->start_run(std::move(run));
  if (!id) {
    ADD_FAILURE() << id.error().message;
    return 0;
  }
  runs_[*id];
  return *id;
}

RunResult TestAgent::finish(Id id) {
  EXPECT_TRUE(serve_until([&] { return runs_[id].over; })) << "run " << id << " does not end";
  RunResult result = std::move(runs_[id].result);
  runs_.erase(id);
  return result;
}

RunResult TestAgent::run(const StartRun& run, std::string_view input) {
  const Id id = start(run);
  if (run.input == RunInput::Streamed) {
    if (!serve_until([&] { return runs_[id].begun || runs_[id].over; })) return {};
    if (UniqueFd& fd = runs_[id].input) {
      const std::string text(input);
      std::size_t sent = 0;
      serve_until([&] {
        const ssize_t size = ::write(fd.get(), text.data() + sent, text.size() - sent);
        if (size > 0) sent += static_cast<std::size_t>(size);
        return sent == text.size() || (size < 0 && errno == EPIPE);
      });
      fd.reset();
    } else if (!input.empty()) {
      pending_input_[id] = input;
    } else {
      (void)link_->end_input(id);
    }
  }
  return finish(id);
}

RunResult TestAgent::run(std::string_view code) {
  StartRun request;
  request.code = code;
  return run(request);
}

RunResult TestAgent::exec(std::vector<std::string> argv) {
  StartRun request;
  request.mode = RunMode::Exec;
  request.argv = std::move(argv);
  return run(request);
}

TestAgent::JobResult TestAgent::job(const StartJob& request, std::string_view data) {
  const JobData kind = data_of(request.kind);
  Pipe pipe;
  if (kind != JobData::None) {
    if (auto made = open_pipe()) pipe = std::move(*made);
  }
  UniqueFd theirs = kind == JobData::Output ? std::move(pipe.write) : std::move(pipe.read);
  UniqueFd ours = kind == JobData::Output ? std::move(pipe.read) : std::move(pipe.write);
  int type = 0;
  socklen_t size = sizeof(type);
  ::getsockopt(link_->fd().get(), SOL_SOCKET, SO_TYPE, &type, &size);
  if (type == SOCK_STREAM) {
    theirs.reset();
    ours.reset();
  }
  auto id = link_->start_job(request, kind == JobData::None ? UniqueFd() : std::move(theirs));
  if (!id) {
    JobResult refused;
    refused.over.error = id.error();
    return refused;
  }
  jobs_[*id];
  if (type == SOCK_STREAM && kind == JobData::Input) {
    if (data.empty()) {
      (void)link_->end_input(*id);
    } else {
      pending_input_[*id] = data;
    }
  }
  if (ours) (void)set_nonblocking(ours);
  bool ended = kind != JobData::Output || !ours;
  std::size_t sent = 0;
  serve_until([&] {
    if (kind == JobData::Output) {
      drain(ours, jobs_[*id].output, ended);
    } else if (ours) {
      const ssize_t part = ::write(ours.get(), data.data() + sent, data.size() - sent);
      if (part > 0) sent += static_cast<std::size_t>(part);
      if (sent == data.size() || (part < 0 && errno == EPIPE)) ours.reset();
    }
    return jobs_[*id].over.job == *id && ended;
  });
  JobResult result = std::move(jobs_[*id]);
  jobs_.erase(*id);
  pending_input_.erase(*id);
  EXPECT_EQ(result.over.job, *id) << "the job does not end";
  std::string_view rest = result.output;
  if (request.kind == JobKind::List || request.kind == JobKind::Search ||
      request.kind == JobKind::Read) {
    while (!rest.empty()) {
      const std::optional<Entry> entry = take_entry(rest).value_or(std::nullopt);
      if (!entry) break;
      result.entries.push_back(*entry);
      if (request.kind == JobKind::Read) break;
    }
    result.output = std::string(rest);
  }
  return result;
}

std::size_t TestAgent::open_descriptors() const {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid_), error)) {
    (void)entry;
    ++count;
  }
  return count;
}

std::size_t TestAgent::memory_kib(std::string_view field) const {
  std::ifstream file(fmt::format("/proc/{}/status", pid_));
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(field)) {
      return static_cast<std::size_t>(std::atol(line.c_str() + field.size() + 1));
    }
  }
  return 0;
}

std::vector<pid_t> TestAgent::children_of(pid_t parent) const {
  std::ifstream file(fmt::format("/proc/{}/task/{}/children", parent, parent));
  std::vector<pid_t> pids;
  pid_t pid = 0;
  while (file >> pid) pids.push_back(pid);
  return pids;
}

}  // namespace glovebox::guest
