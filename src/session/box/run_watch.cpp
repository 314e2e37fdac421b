#include "session/box/run_watch.h"

#include "base/pipe.h"

#include <array>
#include <cerrno>

#include <poll.h>
#include <unistd.h>

namespace glovebox::session {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBuffer = 64U << 10;

short link_events(const guest::AgentLink& link) {
  return static_cast<short>(POLLIN | (link.wants_write() ? POLLOUT : 0));
}

bool takes_input(guest::JobKind kind) {
  return kind == guest::JobKind::Write || kind == guest::JobKind::Unpack;
}
bool gives_output(guest::JobKind kind) {
  return kind == guest::JobKind::Read || kind == guest::JobKind::List ||
         kind == guest::JobKind::Search || kind == guest::JobKind::Pack;
}

}  // namespace

RunWatch::RunWatch(guest::AgentLink& link, guest::Id id, std::optional<milliseconds> timeout,
                   const OutputSink& sink)
    : link_(link), id_(id), sink_(sink) {
  if (timeout) deadline_ = Clock::now() + *timeout;
}

int RunWatch::poll_timeout() const {
  if (!deadline_ || timed_out_) return -1;
  const auto left = std::chrono::duration_cast<milliseconds>(*deadline_ - Clock::now()).count();
  return left > 0 ? static_cast<int>(std::min<std::int64_t>(left + 1, 1'000'000)) : 0;
}

Result<RunResult> RunWatch::follow() {
  while (!result_) {
    TRY_VOID(wait());
    TRY_VOID(stop_late_run());
  }
  // Everything that the run printed is in the pipes by now; what it left behind may print more, and
  // is not waited for.
  TRY_VOID(drain(output_, guest::Stream::Output));
  TRY_VOID(drain(error_, guest::Stream::Error));
  return *result_;
}

Result<void> RunWatch::wait() {
  std::array<pollfd, 3> waits{{{link_.fd().get(), link_events(link_), 0},
                               {output_ ? output_.get() : -1, POLLIN, 0},
                               {error_ ? error_.get() : -1, POLLIN, 0}}};
  if (::poll(waits.data(), waits.size(), poll_timeout()) < 0 && errno != EINTR) {
    return fail_os(errno, "wait for a run");
  }
  if (waits[1].revents != 0) TRY_VOID(drain(output_, guest::Stream::Output));
  if (waits[2].revents != 0) TRY_VOID(drain(error_, guest::Stream::Error));
  if (waits[0].revents == 0) return {};
  TRY(auto events, link_.on_ready());
  for (guest::AgentEvent& event : events) TRY_VOID(take_event(event));
  return {};
}

Result<void> RunWatch::take_event(guest::AgentEvent& event) {
  if (auto* begun = std::get_if<guest::RunBegun>(&event)) {
    output_ = std::move(begun->output);
    error_ = std::move(begun->error);
    return {};
  }
  if (const auto* refused = std::get_if<guest::RequestRefused>(&event)) {
    return tl::unexpected(refused->error);
  }
  if (const auto* whole = std::get_if<guest::RunWhole>(&event)) {
    if (!whole->output.empty()) TRY_VOID(sink_(guest::Stream::Output, whole->output));
    if (!whole->error.empty()) TRY_VOID(sink_(guest::Stream::Error, whole->error));
    result_ = to_result(whole->end);
    result_->timed_out = timed_out_;
    return {};
  }
  if (const auto* over = std::get_if<guest::RunOver>(&event)) {
    result_ = to_result(over->end);
    result_->timed_out = timed_out_;
    return {};
  }
  return fail(Code::Os, "the session's agent has gone");
}

Result<void> RunWatch::drain(UniqueFd& fd, guest::Stream stream) {
  std::array<char, kBuffer> buffer;
  while (fd) {
    const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
    if (size > 0) {
      TRY_VOID(sink_(stream, {buffer.data(), static_cast<std::size_t>(size)}));
      // Back to waiting, so that a run that never stops printing can be stopped.
      if (!result_) return {};
      continue;
    }
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return {};
    fd.reset();
  }
  return {};
}

Result<void> RunWatch::stop_late_run() {
  if (!deadline_ || timed_out_ || result_ || Clock::now() < *deadline_) return {};
  timed_out_ = true;
  return link_.kill_run(id_, kRunGrace);
}

Result<guest::JobOver> JobWatch::follow(const guest::StartJob& job, std::string_view input) {
  UniqueFd theirs;
  writes_ = takes_input(job.kind);
  if (writes_ || gives_output(job.kind)) {
    TRY(Pipe ends, open_pipe());
    data_ = std::move(writes_ ? ends.write : ends.read);
    theirs = std::move(writes_ ? ends.read : ends.write);
    TRY_VOID(set_nonblocking(data_));
  }
  TRY(const guest::Id id, link_.start_job(job, std::move(theirs)));
  std::optional<guest::JobOver> over;
  while (!over || (data_ && !writes_)) {
    std::array<pollfd, 2> waits{
        {{link_.fd().get(), link_events(link_), 0},
         {data_ ? data_.get() : -1, static_cast<short>(writes_ ? POLLOUT : POLLIN), 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) {
      return fail_os(errno, "wait for a file job");
    }
    if (waits[1].revents != 0) TRY_VOID(move_data(input, waits[1].revents));
    if (waits[0].revents == 0) continue;
    TRY(auto events, link_.on_ready());
    for (guest::AgentEvent& event : events) {
      if (const auto* refused = std::get_if<guest::RequestRefused>(&event)) {
        return tl::unexpected(refused->error);
      }
      auto* ended = std::get_if<guest::JobOver>(&event);
      if (ended == nullptr || ended->job != id) {
        return fail(Code::Os, "the session's agent has gone");
      }
      over = std::move(*ended);
      if (writes_) data_.reset();
    }
  }
  if (over->error) return tl::unexpected(*over->error);
  return *std::move(over);
}

Result<void> JobWatch::move_data(std::string_view& input, short revents) {
  if (!writes_) {
    std::array<char, kBuffer> buffer;
    const ssize_t size = ::read(data_.get(), buffer.data(), buffer.size());
    if (size > 0)
      return sink_(guest::Stream::Output, {buffer.data(), static_cast<std::size_t>(size)});
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) data_.reset();
    return {};
  }
  if ((revents & POLLERR) != 0 || input.empty()) {
    data_.reset();  // all is written, or the reader is gone: the job's end says which
    return {};
  }
  const ssize_t size = ::write(data_.get(), input.data(), input.size());
  if (size > 0) input.remove_prefix(static_cast<std::size_t>(size));
  if (size < 0 && errno != EAGAIN && errno != EINTR) data_.reset();
  return {};
}

}  // namespace glovebox::session
