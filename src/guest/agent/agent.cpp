#include "guest/agent/agent.h"

#include "base/file.h"
#include "guest/agent/agent_core.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

constexpr int kTickMs = 10;
// A socket that is always readable must not keep the children waiting.
constexpr int kFramesPerTurn = 16;

// Descriptors 0 to 2 must not be anything that a program could inherit by accident, and what is
// opened later must lie above them.
Result<void> silence_stdio() {
  TRY(const UniqueFd null, open_file("/dev/null", O_RDWR));
  for (int i = 0; i < 3; ++i) {
    if (null.get() != i && ::dup2(null.get(), i) != i) return fail_os(errno, "set up stdio");
  }
  // The parent may have left a descriptor open; a program in the box must not find it.
  if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) return fail_os(errno, "close on exec");
  return {};
}

// All signals are blocked for the agent's life; children get them back (spawn.cpp).
Result<UniqueFd> open_children() {
  sigset_t all;
  sigfillset(&all);
  if (::sigprocmask(SIG_SETMASK, &all, nullptr) != 0) return fail_os(errno, "block signals");
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  // An ignored SIGCHLD would take the children's statuses away; an ignored SIGPIPE would be
  // inherited.
  ::sigaction(SIGCHLD, &action, nullptr);
  ::sigaction(SIGPIPE, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  UniqueFd fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_os(errno, "watch children");
  return fd;
}

RunEnded end_of(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return {EndKind::Signaled, static_cast<std::uint32_t>(WTERMSIG(wait_status)), ShellState::None};
  }
  return {EndKind::Exited, static_cast<std::uint32_t>(WEXITSTATUS(wait_status)), ShellState::None};
}

}  // namespace

Result<Agent> Agent::make(AgentOptions options) {
  TRY_VOID(silence_stdio());
  TRY(UniqueFd children, open_children());
  TRY(EventLoop loop, EventLoop::open());
  TRY(PrivateDir dir, PrivateDir::make(options.scratch));
  return Agent(Wire(std::move(options.socket), options.transport), std::move(loop),
               std::move(children), std::move(dir));
}

Result<void> Agent::watch_all() {
  TRY_VOID(loop_.watch(wire_.fd(), EPOLLIN, [this](std::uint32_t /*events*/) { on_socket(); }));
  return loop_.watch(children_, EPOLLIN, [this](std::uint32_t /*events*/) { on_children(); });
}

Result<void> Agent::serve() {
  TRY_VOID(watch_all());
  while (!over_) {
    const bool ticking =
        !stragglers_.empty() || (shell_ && shell_->is_interrupted()) ||
        std::ranges::any_of(runs_,
                            [](const auto& run) { return run.second.killing.has_value(); }) ||
        std::ranges::any_of(jobs_, [](const auto& job) { return job.second.kill_at.has_value(); });
    TRY_VOID(loop_.wait(ticking ? kTickMs : -1));
    if (ticking) on_tick();
    if (!over_) loop_.change(wire_.fd(), wire_.wants_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  if (failure_) return tl::unexpected(std::move(*failure_));
  return {};
}

void Agent::fail_session(Error error) {
  if (!failure_) failure_ = std::move(error);
  over_ = true;
}

void Agent::say(Id id, Reply reply, std::vector<UniqueFd> fds) {
  const Frame<Reply> frame{id, static_cast<std::uint16_t>(fds.size()), std::move(reply)};
  auto bytes = encode(frame);
  if (!bytes) return fail_session(std::move(bytes).error());
  auto sent = wire_.send(*std::move(bytes), std::move(fds));
  if (!sent) fail_session(std::move(sent).error());
}

void Agent::refuse(Id id, const Error& error) {
  say(id, Refused{static_cast<std::uint8_t>(error.code), static_cast<std::uint32_t>(error.os_errno),
                  error.message});
}

void Agent::on_socket() {
  if (wire_.wants_write()) {
    if (auto flushed = wire_.flush(); !flushed) return fail_session(std::move(flushed).error());
    move_all_out();
  }
  for (int i = 0; i < kFramesPerTurn && !over_; ++i) {
    auto received = wire_.receive();
    if (!received) return fail_session(std::move(received).error());
    std::optional<ReceivedFrame> frame = *std::move(received);
    if (!frame) {
      over_ = over_ || wire_.at_end();
      return;
    }
    if (auto taken = take_frame(*std::move(frame)); !taken) {
      return fail_session(std::move(taken).error());
    }
  }
}

Result<void> Agent::take_frame(ReceivedFrame received) {
  TRY(Frame<Request> frame, decode_request(received.bytes));
  if (frame.fd_count != received.fds.size()) {
    return fail(Code::Invalid, "a frame says {} descriptors and brings {}", frame.fd_count,
                received.fds.size());
  }
  if (!greeted_ && !std::holds_alternative<Hello>(frame.body)) {
    return fail(Code::Invalid, "a request before Hello");
  }
  return std::visit([&](auto& body) { return handle(frame.id, body, received.fds); }, frame.body);
}

Result<void> Agent::handle(Id id, const Hello& hello, std::vector<UniqueFd>& /*fds*/) {
  if (greeted_ || id != kSessionId || hello.version != kProtocolVersion) {
    return fail(Code::Invalid, "a Hello out of place, or of version {}", hello.version);
  }
  greeted_ = true;
  workspace_path_ = hello.workspace;
  TRY(workspace_, open_file(hello.workspace, O_PATH | O_DIRECTORY));
  if (::fchdir(workspace_.get()) != 0) return fail_os(errno, "enter {}", hello.workspace);
  env_ = hello.env;
  shell_ = std::make_unique<PersistentShell>(dir_, hello.shells, env_, workspace_path_);
  // A box without a shell is a box in which only programs run; each shell run says why not.
  if (start_shell()) shell_->prepare();
  say(kSessionId, Ready{kProtocolVersion, shell_->kind()});
  return {};
}

Result<void> Agent::handle(Id /*id*/, const Shutdown& /*shutdown*/,
                           std::vector<UniqueFd>& /*fds*/) {
  over_ = true;
  return {};
}

Result<void> Agent::handle(Id id, CodePart& part, std::vector<UniqueFd>& /*fds*/) {
  if (code_.first != id) code_ = {id, {}};
  if (code_.second.size() + part.bytes.size() > kMaxCode) {
    return fail(Code::Invalid, "code of more than {} bytes", kMaxCode);
  }
  code_.second += part.bytes;
  return {};
}

Result<void> Agent::handle(Id id, StartRun& run, std::vector<UniqueFd>& fds) {
  if (id <= newest_id_ || !fds.empty()) return fail(Code::Invalid, "run {} started wrongly", id);
  newest_id_ = id;
  std::string code = code_.first == id ? std::move(code_.second) : std::string();
  code_ = {};
  code += run.code;
  run.code.clear();
  if (const auto started = start_run(id, run, code); !started) {
    refuse(id, started.error());
  }
  return {};
}

Result<void> Agent::handle(Id id, const StartJob& job, std::vector<UniqueFd>& fds) {
  if (id <= newest_id_) return fail(Code::Invalid, "job {} started wrongly", id);
  newest_id_ = id;
  if (const auto started = start_job(id, job, std::move(fds)); !started) {
    refuse(id, started.error());
  }
  return {};
}

void Agent::on_children() {
  signalfd_siginfo drained;
  while (::read(children_.get(), &drained, sizeof(drained)) > 0) {
  }
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    if (shell_ && pid == shell_->pid()) {
      on_shell_death(status);
      continue;
    }
    const auto run =
        std::ranges::find_if(runs_, [&](const auto& entry) { return entry.second.pid == pid; });
    if (run != runs_.end()) run_over(run->first, end_of(status));
    // From here on the number may be another's.
    for (auto& [id, job] : jobs_) {
      if (job.pid == pid) job.pid = -1;
    }
  }
}

void Agent::on_shell_death(int wait_status) {
  // The end of the run may have been told just before.
  on_marks();
  loop_.forget(shell_->marks());
  shell_->ended();
  shell_was_lost_ = shell_run_ == kSessionId;
  if (shell_was_lost_) return;  // the next run starts another
  RunEnded ended = end_of(wait_status);
  ended.shell = ShellState::Fresh;
  run_over(shell_run_, ended);
}

void Agent::on_tick() {
  shell_->remind();
  interrupt_stragglers();
  std::vector<Id> ids;
  for (const auto& [id, run] : runs_) {
    if (run.killing) ids.push_back(id);
  }
  for (const Id id : ids) {
    if (const auto run = runs_.find(id); run != runs_.end()) go_on_killing(id, run->second);
  }
  for (auto& [id, job] : jobs_) {
    if (job.kill_at && Clock::now() >= *job.kill_at && job.pid > 0) ::kill(job.pid, SIGKILL);
  }
}

int run_agent(AgentOptions options) {
  try {
    auto agent = Agent::make(std::move(options));
    if (!agent) return 1;
    return agent->serve() ? 0 : 1;
  } catch (const Bug&) {
    return 1;  // the supervisor sees the socket close, and ends the session
  }
}

}  // namespace glovebox::guest
