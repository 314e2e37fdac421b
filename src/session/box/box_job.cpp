#include "session/box/box_job.h"

#include "async/co_try.h"
#include "base/pipe.h"
#include "guest/files/file_jobs.h"

#include <array>
#include <cerrno>

namespace glovebox::session {
namespace {

constexpr std::size_t kEntryRead = std::size_t{16} << 10;

Error canceled() { return Error{Code::Os, ECANCELED, "the file job was canceled"}; }

struct JobPipe {
  UniqueFd ours;    // does not block
  UniqueFd theirs;  // the agent's
};

Result<JobPipe> open_job_pipe(guest::JobData data) {
  JobPipe pipe;
  if (data == guest::JobData::None) return pipe;
  TRY(Pipe ends, open_pipe());
  const bool we_write = data == guest::JobData::Input;
  pipe.ours = std::move(we_write ? ends.write : ends.read);
  pipe.theirs = std::move(we_write ? ends.read : ends.write);
  TRY_VOID(set_nonblocking(pipe.ours));
  return pipe;
}

}  // namespace

Result<std::shared_ptr<JobState>> BoxSession::ask_for_job(const guest::StartJob& job) {
  if (!is_alive()) return unexpected(over_error());
  TRY(JobPipe pipe, open_job_pipe(guest::data_of(job.kind)));
  auto state = std::make_shared<JobState>(loop_);
  TRY(state->id, link_->start_job(job, std::move(pipe.theirs)));
  watch_line_for_room();
  state->data.adopt(std::move(pipe.ours));
  state->is_input = guest::data_of(job.kind) == guest::JobData::Input;
  jobs_.emplace(state->id, state);
  return state;
}

asio::awaitable<Result<std::unique_ptr<FileJob>>> BoxSession::start_job(guest::StartJob job) {
  CO_TRY(std::shared_ptr<JobState> state, ask_for_job(job));
  auto self = std::static_pointer_cast<BoxSession>(shared_from_this());
  co_return std::make_unique<BoxJob>(std::move(self), std::move(state));
}

asio::awaitable<Result<guest::JobOver>> BoxSession::job(guest::StartJob job) {
  if (guest::data_of(job.kind) != guest::JobData::None) {
    co_return fail(Code::Invalid, "a file job with data is a stream");
  }
  CO_TRY(const std::unique_ptr<FileJob> one, co_await start_job(std::move(job)));
  co_return co_await one->finish();
}

BoxJob::BoxJob(std::shared_ptr<BoxSession> session, std::shared_ptr<JobState> job)
    : session_(std::move(session)), job_(std::move(job)) {
  ++session_->in_use_;
}

BoxJob::~BoxJob() {
  give_up();
  --session_->in_use_;
  session_->last_use_ = std::chrono::steady_clock::now();
}

// The input's end would tell the agent that all of it has come, so an input that is given up stays
// open until the job is over.
void BoxJob::give_up() {
  if (job_->is_over() || !job_->is_input) job_->data.close();
  if (job_->is_over()) return;
  job_->is_given_up = true;
  (void)session_->link_->cancel_job(job_->id);  // one that has just ended needs no cancelling
  session_->watch_line_for_room();
}

asio::awaitable<Result<std::size_t>> BoxJob::read(std::span<char> buffer) {
  if (!held_.empty()) {
    const std::size_t size = held_.copy(buffer.data(), buffer.size());
    held_.erase(0, size);
    co_return size;
  }
  while (true) {
    // Looked at before the pipe is: what a job has given is in it when it is over.
    const bool is_over = job_->is_over();
    const ReadyFd::Moved moved = job_->data.fill(buffer);
    if (moved.step == ReadyFd::Step::Moved) co_return moved.bytes;
    if (moved.step == ReadyFd::Step::Ended || is_over) co_return std::size_t{0};
    job_->data.when_readable([job = job_] { job->wakeup.notify(); });
    const Woken woken = co_await job_->wakeup.wait();
    if (woken == Woken::Canceled) co_return unexpected(canceled());
  }
}

asio::awaitable<Result<guest::Entry>> BoxJob::read_entry() {
  std::string bytes;
  std::array<char, kEntryRead> buffer;
  while (true) {
    CO_TRY(const std::size_t size, co_await read(buffer));
    bytes.append(buffer.data(), size);
    std::string_view rest = bytes;
    CO_TRY(std::optional<guest::Entry> entry, guest::take_entry(rest));
    if (entry) {
      held_ = std::string(rest) + held_;
      co_return *std::move(entry);
    }
    if (size > 0) continue;
    CO_TRY_VOID(co_await finish());
    co_return fail(Code::Os, "the agent told nothing of the file");
  }
}

asio::awaitable<Result<void>> BoxJob::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ReadyFd::Moved moved = job_->data.write(bytes);
    bytes.remove_prefix(moved.bytes);
    if (moved.step == ReadyFd::Step::Moved) continue;
    if (moved.step == ReadyFd::Step::Ended || job_->is_over()) {
      // The job's own error says more than that its pipe is closed.
      CO_TRY_VOID(co_await finish());
      co_return unexpected(Error{Code::Os, EPIPE, "the file job takes no more input"});
    }
    job_->data.when_writable([job = job_] { job->wakeup.notify(); });
    const Woken woken = co_await job_->wakeup.wait();
    if (woken == Woken::Canceled) co_return unexpected(canceled());
  }
  co_return Result<void>();
}

asio::awaitable<Result<guest::JobOver>> BoxJob::finish() {
  job_->data.close();
  while (!job_->is_over()) {
    const Woken woken = co_await job_->wakeup.wait();
    if (woken == Woken::Canceled) co_return unexpected(canceled());
  }
  if (job_->problem) co_return unexpected(*job_->problem);
  co_return *job_->over;
}

}  // namespace glovebox::session
