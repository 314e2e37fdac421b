#include "session/box/blocking_session.h"

#include "base/pidfd.h"
#include "launch/child/init_message.h"
#include "launch/packet.h"
#include "session/box/launch_result.h"
#include "session/box/run_watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

using std::chrono::milliseconds;

Result<launch::Packet> receive_word(BorrowedFd status, launch::Message& message) {
  TRY(launch::Packet packet, launch::receive_packet(status, sizeof(message)));
  if (packet.bytes.size() != sizeof(message)) {
    return fail(Code::Os, "the box ended before its agent was there");
  }
  std::memcpy(&message, packet.bytes.data(), sizeof(message));
  return packet;
}

Result<void> hand_over(std::vector<UniqueFd> fds, const plan::LaunchPlan& plan,
                       launch::NetworkDelegate* network) {
  if (network == nullptr || !plan.network) {
    return fail(Code::Unsupported, "nobody answers for the box's network");
  }
  TRY(launch::NetworkFiles files, launch::network_files(std::move(fds), *plan.network));
  return network->take(std::move(files));
}

// The launch's own last words: the network, if planned; and that the box is built, or which step
// failed.
Result<void> await_started(BorrowedFd status, const plan::LaunchPlan& plan,
                           launch::NetworkDelegate* network) {
  launch::Message message{};
  TRY(launch::Packet packet, receive_word(status, message));
  if (message.kind == launch::MessageKind::Network) {
    TRY_VOID(hand_over(std::move(packet.fds), plan, network));
    TRY(packet, receive_word(status, message));
  } else if (message.kind == launch::MessageKind::Started && plan.network) {
    return fail(Code::Os, "the box started without its network");
  }
  return check_started(message, plan);
}

}  // namespace

Session::Session(launch::LauncherClient& launcher, launch::RemoteBox box)
    : launcher_(&launcher),
      id_(box.id),
      init_(std::move(box.init)),
      link_(std::make_unique<guest::AgentLink>(std::move(box.status), guest::Transport::Packets)) {}

Session::~Session() {
  // A box that has ended already is no failure.
  if (init_) (void)kill_process(init_);
}

Result<Session> Session::start(launch::LauncherClient& launcher, const plan::LaunchPlan& plan,
                               const SessionSettings& settings) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return fail_os(errno, "open /dev/null");
  TRY(launch::RemoteBox box,
      launcher.start_box(plan, {null.get(), null.get(), null.get()}, settings.keep_parked));
  TRY_VOID(await_started(box.status, plan, settings.network));
  Session session(launcher, std::move(box));
  guest::Hello hello;
  hello.workspace = settings.workspace;
  hello.shells = {"/bin/bash", "/usr/bin/bash", "/bin/sh"};
  hello.env = plan.envp;
  hello.env.insert(hello.env.end(), settings.env.begin(), settings.env.end());
  TRY_VOID(session.link_->greet(std::move(hello)));
  TRY_VOID(session.await_ready());
  return session;
}

Result<std::vector<guest::AgentEvent>> Session::take_events(milliseconds timeout) {
  const short wanted = static_cast<short>(POLLIN | (link_->wants_write() ? POLLOUT : 0));
  pollfd ready{link_->fd().get(), wanted, 0};
  const int count = ::poll(&ready, 1, static_cast<int>(timeout.count()));
  if (count < 0 && errno != EINTR) return fail_os(errno, "wait for the agent");
  if (count <= 0) return std::vector<guest::AgentEvent>();
  return link_->on_ready();
}

Result<void> Session::await_ready() {
  const auto end = std::chrono::steady_clock::now() + kStartTimeout;
  while (std::chrono::steady_clock::now() < end) {
    TRY(const auto events, take_events(kStartTimeout));
    for (const guest::AgentEvent& event : events) {
      if (const auto* ready = std::get_if<guest::AgentReady>(&event)) {
        shell_ = ready->shell;
        return {};
      }
      return fail(Code::Os, "the session's agent said something else than that it is there");
    }
  }
  return fail(Code::Os, "the session's agent did not answer");
}

Result<RunResult> Session::run(const RunRequest& request, const OutputSink& sink) {
  if (request.terminal || request.input != guest::RunInput::Empty ||
      request.error_output != ErrorOutput::Apart) {
    return fail(Code::Unsupported, "a run with input, a terminal or merged output needs a service");
  }
  TRY(guest::StartRun start, to_start(request));
  TRY(const guest::Id id, link_->start_run(std::move(start)));
  RunWatch watch(*link_, id, request.timeout, sink);
  return watch.follow();
}

Result<guest::JobOver> Session::job(const guest::StartJob& job, std::string_view input,
                                    const OutputSink& sink) {
  JobWatch watch(*link_, sink);
  return watch.follow(job, input);
}

Result<launch::RemoteEnd> Session::stop() {
  // The agent may be gone or stuck: its end does not depend on its answer.
  (void)link_->shut_down();
  TRY_VOID(kill_process(init_));
  init_.reset();
  return launcher_->await_end(id_);
}

}  // namespace glovebox::session
