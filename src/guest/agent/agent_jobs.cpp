#include "base/file.h"
#include "base/pipe.h"
#include "guest/agent/agent_core.h"
#include "guest/files/file_jobs.h"
#include "guest/protocol/codec.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace glovebox::guest {
namespace {

// What a cancelled job has to clean up after itself.
constexpr std::chrono::milliseconds kCancelGrace{500};
// Where the job's process has its two descriptors.
constexpr int kStatusNumber = 3;
constexpr int kDataNumber = 4;
constexpr int kWorkspaceNumber = 5;

Result<JobEnded> decode_answer(std::string_view bytes) {
  TRY(Frame<Reply> frame, decode_reply(bytes));
  if (!std::holds_alternative<JobEnded>(frame.body)) return fail(Code::Invalid, "a wrong answer");
  return std::get<JobEnded>(std::move(frame.body));
}

// Puts the descriptors where they are expected and closes everything else: a job must not keep the
// pipes of runs open.
bool keep_only(int status, int data, int workspace) {
  const std::array<int, 3> numbers = {kStatusNumber, kDataNumber, kWorkspaceNumber};
  std::array<int, 3> sources = {status, data, workspace};
  // Above the places first, so that no source is overwritten before it is copied.
  for (int& source : sources) {
    if (source < 0) continue;
    source = ::fcntl(source, F_DUPFD_CLOEXEC, kWorkspaceNumber + 1);
    if (source < 0) return false;
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources.at(i) >= 0 && ::dup3(sources.at(i), numbers.at(i), O_CLOEXEC) < 0) return false;
  }
  return ::close_range(kWorkspaceNumber + 1, ~0U, 0) == 0;
}

[[noreturn]] void be_job(const StartJob& job, int status, int data, int workspace) {
  if (!keep_only(status, data, workspace)) ::_exit(1);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);  // a reader that is gone is an error like others
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::umask(022);
  const JobEnded ended =
      run_file_job(job, BorrowedFd(kWorkspaceNumber), BorrowedFd(data < 0 ? -1 : kDataNumber));
  const auto bytes = encode(Frame<Reply>{1, 0, ended});
  // An answer that cannot be given is a job that ended without one.
  const bool told = bytes && write_all(BorrowedFd(kStatusNumber), *bytes);
  ::_exit(told ? 0 : 1);
}

}  // namespace

Result<void> Agent::start_job(Id id, const StartJob& job, std::vector<UniqueFd> fds) {
  TRY_VOID(check_job(job));
  const std::size_t needed = is_packets() && data_of(job.kind) != JobData::None ? 1 : 0;
  if (fds.size() != needed) {
    return fail(Code::Invalid, "a file job with {} descriptors instead of {}", fds.size(), needed);
  }
  if (is_quick(job)) {
    say(id, run_file_job(job, workspace_, BorrowedFd(-1)));
    return {};
  }
  if (jobs_.size() >= kMaxJobs) return fail(Code::Exhausted, "{} file jobs at a time", kMaxJobs);
  if (needed > 0) return fork_job(id, job, std::move(fds.front()));
  if (data_of(job.kind) == JobData::None) return fork_job(id, job, UniqueFd());
  TRY(Pipe pipe, open_pipe());
  if (data_of(job.kind) == JobData::Output) {
    TRY_VOID(set_nonblocking(pipe.read));
    TRY_VOID(fork_job(id, job, std::move(pipe.write)));
    return add_out_flow(id, Stream::Output, std::move(pipe.read));
  }
  TRY_VOID(set_nonblocking(pipe.write));
  TRY_VOID(fork_job(id, job, std::move(pipe.read)));
  return add_in_flow(id, std::move(pipe.write));
}

Result<void> Agent::fork_job(Id id, const StartJob& job, UniqueFd data) {
  TRY(Pipe status, open_pipe());
  TRY_VOID(set_nonblocking(status.read));
  const pid_t pid = ::fork();
  if (pid < 0) return fail_os(errno, "make a process for a file job");
  if (pid == 0) be_job(job, status.write.get(), data.get(), workspace_.get());
  Job record;
  record.pid = pid;
  const BorrowedFd fd = status.read;
  record.status = std::move(status.read);
  jobs_.insert_or_assign(id, std::move(record));
  return loop_.watch(fd, EPOLLIN, [this, id](std::uint32_t /*events*/) { on_job_status(id); });
}

// The answer is whole when the process has closed its end.
void Agent::on_job_status(Id id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t size = ::read(job.status.get(), buffer.data(), buffer.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) break;
    if (job.heard.size() < kMaxFrame) {
      job.heard.append(buffer.data(), static_cast<std::size_t>(size));
    }
  }
  loop_.forget(job.status);
  job.status.reset();
  auto answer = decode_answer(job.heard);
  if (answer) {
    job.ended = *std::move(answer);
  } else {
    job.ended = JobEnded{static_cast<std::uint32_t>(job.kill_at ? ECANCELED : EIO),
                         static_cast<std::uint8_t>(Code::Os),
                         job.kill_at ? "the file job was cancelled" : "the file job was killed",
                         0,
                         {}};
  }
  finish_job(id);
}

void Agent::finish_job(Id id) {
  const auto job = jobs_.find(id);
  // Over a byte stream the end comes after the last of the output.
  if (job == jobs_.end() || out_flows_.contains({id, Stream::Output})) return;
  std::optional<JobEnded>& ended = job->second.ended;
  if (!ended) return;
  say(id, *std::move(ended));
  jobs_.erase(job);
  drop_in_flow(id);
}

Result<void> Agent::handle(Id id, const CancelJob& /*cancel*/, std::vector<UniqueFd>& /*fds*/) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end() || job->second.kill_at) return {};  // it has ended meanwhile
  job->second.kill_at = Clock::now() + kCancelGrace;
  if (job->second.pid > 0) ::kill(job->second.pid, SIGTERM);
  return {};
}

}  // namespace glovebox::guest
