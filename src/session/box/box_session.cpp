#include "session/box/box_session.h"

#include "async/co_try.h"
#include "base/pidfd.h"
#include "launch/child/init_message.h"
#include "launch/launcher.h"
#include "launch/packet.h"
#include "session/box/launch_result.h"
#include "workspace/layer/image.h"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace glovebox::session {
namespace {

using boost::system::error_code;

// How long the launcher may take to say what ended a box that was killed.
constexpr std::chrono::seconds kLastWordWait{10};

std::string_view limit_words(launch::LimitKind limit) {
  switch (limit) {
    case launch::LimitKind::Wall: return "the session's time was used up";
    case launch::LimitKind::Memory: return "the box needed more memory than it may";
    case launch::LimitKind::Pids: return "the box wanted more processes than it may";
    case launch::LimitKind::Cpu: return "the session's CPU time was used up";
    case launch::LimitKind::Output: return "the session printed more than it may";
    case launch::LimitKind::Disk: return "the session's disk budget was used up";
  }
  return "a limit";
}

}  // namespace

BoxSession::BoxSession(asio::io_context& loop, launch::RemoteBox box, BoxSettings settings)
    : loop_(loop),
      settings_(std::move(settings)),
      box_id_(box.id),
      init_(std::move(box.init)),
      cgroup_(std::move(box.cgroup)),
      link_(std::make_unique<guest::AgentLink>(std::move(box.status), guest::Transport::Packets)),
      line_(loop, link_->fd().get()),
      started_(loop),
      timer_(loop),
      wall_(loop),
      queue_(std::make_shared<Semaphore>(loop, 1, "the session's shell")),
      run_count_(settings_.runs_before) {}

BoxSession::~BoxSession() {
  kill_box();
  if (line_.is_open()) line_.release();  // the link closes it
}

void BoxSession::kill_box() {
  // A box that has ended already is no failure.
  if (init_) (void)kill_process(init_);
}

asio::awaitable<Result<void>> BoxSession::begin(const plan::LaunchPlan& plan,
                                                std::chrono::milliseconds timeout) {
  plan_ = &plan;
  settings_.hello.env = settings_.env ? *settings_.env : plan.envp;
  watch_line();
  timer_.expires_after(timeout);
  timer_.async_wait([weak = weak_from_this()](const error_code& problem) {
    const auto self = std::static_pointer_cast<BoxSession>(weak.lock());
    if (problem || !self || self->phase_ > Phase::Greeting) return;
    self->start_problem_ = Error{Code::Os, ETIMEDOUT, "the box did not get ready in time"};
    self->started_.notify();
  });
  while (phase_ < Phase::Ready && !start_problem_) {
    const Woken woken = co_await started_.wait();
    if (woken == Woken::Canceled) {
      start_problem_ = Error{Code::Os, ECANCELED, "the start of the box was canceled"};
    }
  }
  timer_.cancel();
  plan_ = nullptr;
  // It may have got ready and ended before it was looked at.
  if (phase_ > Phase::Ready && !start_problem_) start_problem_ = over_error();
  if (start_problem_) {
    kill_box();
    phase_ = Phase::Over;
    co_return unexpected(*start_problem_);
  }
  if (plan.network) {
    for (const authority::BudgetKind kind : authority::kNetworkBudgets) {
      network_budgets_[kind] = plan.network->authority.budget(kind);
    }
  }
  ready_at_ = std::chrono::steady_clock::now();
  watch_wall();
  co_return Result<void>();
}

void BoxSession::watch_wall() {
  if (!settings_.watch.wall) return;
  wall_.expires_at(ready_at_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                   *settings_.watch.wall));
  wall_.async_wait([weak = weak_from_this()](const error_code& problem) {
    const auto self = std::static_pointer_cast<BoxSession>(weak.lock());
    if (problem || !self) return;
    self->lose(EndCause::Limit, launch::LimitKind::Wall, {});
  });
}

void BoxSession::watch_line() {
  line_.async_wait(asio::posix::descriptor_base::wait_read,
                   [weak = weak_from_this()](const error_code& problem) {
                     const auto self = std::static_pointer_cast<BoxSession>(weak.lock());
                     if (problem || !self || self->phase_ >= Phase::Ending) return;
                     self->on_line();
                     if (self->phase_ < Phase::Ending && !self->start_problem_) self->watch_line();
                   });
}

// What the agent does not take at once waits in the link until there is room.
void BoxSession::watch_line_for_room() {
  if (phase_ >= Phase::Ending || waits_for_room_ || !link_->wants_write()) return;
  waits_for_room_ = true;
  line_.async_wait(asio::posix::descriptor_base::wait_write,
                   [weak = weak_from_this()](const error_code& problem) {
                     const auto self = std::static_pointer_cast<BoxSession>(weak.lock());
                     if (!self) return;
                     self->waits_for_room_ = false;
                     if (problem || self->phase_ >= Phase::Ending) return;
                     self->on_line();
                     self->watch_line_for_room();
                   });
}

void BoxSession::on_line() {
  if (phase_ == Phase::Building) {
    auto built = take_launch_message();
    if (built) return;
    start_problem_ = std::move(built).error();
    return started_.notify();
  }
  auto events = link_->on_ready();
  if (!events) {
    if (phase_ == Phase::Greeting) {
      start_problem_ = std::move(events).error();
      return started_.notify();
    }
    return lose(EndCause::AgentBroke, {}, events.error().message);
  }
  for (guest::AgentEvent& event : *events) {
    if (phase_ >= Phase::Ending) return;
    take(event);
  }
  watch_line_for_room();
}

// The box's network first, if it has one; once it is there, no call waits for it.
Result<void> BoxSession::take_network(std::vector<UniqueFd> fds) {
  if (!plan_->network || !settings_.network || has_network_) {
    return fail(Code::Os, "the box has a network that nobody planned");
  }
  TRY(launch::NetworkFiles files, launch::network_files(std::move(fds), *plan_->network));
  has_network_ = true;
  return settings_.network->take(std::move(files));
}

// Its layers that have a budget.
Result<void> BoxSession::take_layers(std::vector<UniqueFd> fds) {
  if (!layers_.empty() || fds.size() != plan::handed_layers(*plan_).size()) {
    return fail(Code::Os, "the box has other layers than planned");
  }
  for (UniqueFd& fd : fds) layers_.push_back(std::make_shared<const UniqueFd>(std::move(fd)));
  return {};
}

bool BoxSession::is_disk_full() const {
  return std::ranges::any_of(layers_, [](const SharedFd& layer) {
    const auto room = workspace::read_room(*layer);
    return room && room->is_full();
  });
}

// The launch's own last words: the box is built, or which step failed.
Result<void> BoxSession::take_launch_message() {
  launch::Message message{};
  auto packet = launch::receive_packet(link_->fd(), sizeof(message));
  if (!packet && packet.error().os_errno == EAGAIN) return {};
  if (!packet || packet->bytes.size() != sizeof(message)) {
    return fail(Code::Os, "the box ended before its agent was there");
  }
  std::memcpy(&message, packet->bytes.data(), sizeof(message));
  if (message.kind == launch::MessageKind::Network) return take_network(std::move(packet->fds));
  if (message.kind == launch::MessageKind::Layers) return take_layers(std::move(packet->fds));
  TRY_VOID(check_started(message, *plan_));
  if (layers_.size() != plan::handed_layers(*plan_).size()) {
    return fail(Code::Os, "the box started without its layers");
  }
  if (plan_->network && !has_network_) {
    return fail(Code::Os, "the box started without its network");
  }
  TRY_VOID(link_->greet(std::exchange(settings_.hello, {})));
  phase_ = Phase::Greeting;
  watch_line_for_room();
  return {};
}

void BoxSession::take(guest::AgentEvent& event) {
  std::visit([this](auto& body) { take_event(body); }, event);
}

void BoxSession::take_event(guest::AgentReady& ready) {
  shell_ = ready.shell;
  phase_ = Phase::Ready;
  started_.notify();
}

void BoxSession::take_event(guest::RunBegun& begun) {
  const auto found = runs_.find(begun.run);
  if (found == runs_.end()) return;
  const std::shared_ptr<RunState> run = found->second;
  run->has_begun = true;
  run->output.adopt(std::move(begun.output));
  run->error.adopt(std::move(begun.error));
  run->input.adopt(std::move(begun.input));
  if (run->is_discarded) return discard(run);
  run->wake();
}

void BoxSession::take_event(guest::RunOver& over) { end_run(over.run, over.end); }

void BoxSession::take_event(guest::RunWhole& whole) {
  const auto found = runs_.find(whole.run);
  if (found == runs_.end()) return;
  found->second->has_begun = true;
  found->second->printed = {std::move(whole.output), std::move(whole.error)};
  end_run(whole.run, whole.end);
}

void BoxSession::end_run(guest::Id id, const guest::RunEnded& end) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  const std::shared_ptr<RunState> run = found->second;
  runs_.erase(found);
  if (id == shell_run_) shell_run_ = guest::kSessionId;
  run->result = to_result(end);
  run->result->timed_out = run->record.timed_out;
  run->result->canceled = run->record.canceled;
  if (run->result->code != 0 && is_disk_full()) run->result->limit = launch::LimitKind::Disk;
  run->timer.cancel();
  run->turn.release();
  if (run->is_discarded) return discard(run);
  run->wake();
}

void BoxSession::take_event(guest::RequestRefused& refused) {
  if (const auto found = runs_.find(refused.id); found != runs_.end()) {
    const std::shared_ptr<RunState> run = found->second;
    runs_.erase(found);
    if (refused.id == shell_run_) shell_run_ = guest::kSessionId;
    run->problem = std::move(refused.error);
    run->timer.cancel();
    run->turn.release();
    if (run->is_discarded) close_run(run);
    return run->wake();
  }
  if (const auto found = jobs_.find(refused.id); found != jobs_.end()) {
    const std::shared_ptr<JobState> job = found->second;
    jobs_.erase(found);
    job->problem = std::move(refused.error);
    if (job->is_given_up) job->data.close();
    job->wakeup.notify();
  }
}

void BoxSession::take_event(guest::JobOver& over) {
  const auto found = jobs_.find(over.job);
  if (found == jobs_.end()) return;
  const std::shared_ptr<JobState> job = found->second;
  jobs_.erase(found);
  if (over.error) {
    job->problem = std::move(over.error);
  } else {
    job->over = std::move(over);
  }
  if (job->is_given_up) job->data.close();
  job->wakeup.notify();
}

void BoxSession::take_event(guest::AgentGone& /*gone*/) {
  if (phase_ != Phase::Greeting) return lose(EndCause::AgentGone, {}, "the box has ended");
  start_problem_ = Error{Code::Os, 0, "the session's agent ended before it was ready"};
  started_.notify();
}

// Frames of byte streams, which no agent sends over packets.
template <class Event>
void BoxSession::take_event(Event& /*event*/) {
  lose(EndCause::AgentBroke, {}, "the agent sent what does not belong on this line");
}

// The box is killed, and the launcher soon says what had happened to it; then it is over.
void BoxSession::lose(EndCause cause, std::optional<launch::LimitKind> limit,
                      std::string sentence) {
  if (phase_ >= Phase::Ending) return;
  phase_ = Phase::Ending;
  ending_.cause = cause;
  ending_.limit = limit;
  ending_.sentence = limit ? std::string(limit_words(*limit)) : std::move(sentence);
  kill_box();
  started_.notify();  // for who waits for a box that is still starting
  timer_.expires_after(kLastWordWait);
  timer_.async_wait([weak = weak_from_this()](const error_code& problem) {
    const auto self = std::static_pointer_cast<BoxSession>(weak.lock());
    if (!problem && self) self->finish();
  });
}

void BoxSession::box_ended(const launch::RemoteEnd& end) {
  remote_end_ = end;
  if (phase_ == Phase::Over) return;
  if (phase_ < Phase::Ready) {
    start_problem_ = Error{Code::Os, 0, "the box ended before its agent was there"};
    return started_.notify();
  }
  if (phase_ == Phase::Ready) lose(EndCause::AgentGone, {}, "the box has ended");
  if (end.limit && ending_.cause != EndCause::Limit) {
    ending_.cause = EndCause::Limit;
    ending_.limit = end.limit;
    ending_.sentence = limit_words(*end.limit);
  }
  finish();
}

void BoxSession::launcher_gone() {
  const char* sentence = "the launcher process died, and the box with it";
  // The end of the box may have been noticed first.
  if (phase_ == Phase::Ending && ending_.cause == EndCause::AgentGone) {
    ending_.cause = EndCause::LauncherGone;
    ending_.sentence = sentence;
  }
  if (phase_ >= Phase::Ready) return close(EndCause::LauncherGone, sentence);
  start_problem_ = Error{Code::Os, EPIPE, "the launcher process died while the box was starting"};
  started_.notify();
}

void BoxSession::close(EndCause cause, std::string sentence) {
  if (phase_ == Phase::Over) return;
  lose(cause, {}, std::move(sentence));
  finish();
}

Error BoxSession::over_error() const {
  const std::string& sentence = end_ ? end_->sentence : ending_.sentence;
  return Error{Code::Os, ESHUTDOWN, fmt::format("session terminated: {}", sentence)};
}

void BoxSession::finish() {
  if (phase_ == Phase::Over) return;
  const auto self = shared_from_this();  // callbacks below may drop the last pointer
  phase_ = Phase::Over;
  settings_.network.reset();
  timer_.cancel();
  wall_.cancel();
  ending_.at = std::chrono::system_clock::now();
  end_ = ending_;
  if (line_.is_open()) line_.release();
  link_.reset();
  init_.reset();
  const Error error = over_error();
  queue_->close(error);
  for (const auto& [id, run] : std::exchange(runs_, {})) {
    run->problem = error;
    run->timer.cancel();
    run->turn.release();
    if (run->is_discarded) close_run(run);
    run->wake();
  }
  for (const auto& [id, job] : std::exchange(jobs_, {})) {
    job->problem = error;
    if (job->is_given_up) job->data.close();
    job->wakeup.notify();
  }
  if (settings_.on_end) settings_.on_end(*end_);
}

asio::awaitable<Result<Semaphore::Permit>> BoxSession::take_shell(WhenBusy when_busy) {
  return queue_->take(when_busy);
}

}  // namespace glovebox::session
