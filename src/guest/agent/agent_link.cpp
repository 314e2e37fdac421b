#include "guest/agent/agent_link.h"

#include "base/file.h"
#include "guest/files/file_jobs.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

namespace glovebox::guest {
namespace {

// A peer that floods is served a little at a time, like the others.
constexpr int kFramesPerTurn = 32;
// A sentence of the agent's is shown to people; it is not to be a book.
constexpr std::size_t kMaxSentence = 2048;

// A pipe of the box as one of our own. Anything but a pipe is refused: reading it could wait, or do
// something on the reader's behalf.
Result<UniqueFd> adopt_pipe(const UniqueFd& fd, int flags) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_os(errno, "look at a descriptor of the agent");
  if (!S_ISFIFO(status.st_mode)) {
    return fail(Code::Invalid, "the agent sent a descriptor that is no pipe");
  }
  // Opening the wrong end would wait, or keep the pipe alive on the box's behalf.
  const int mode = ::fcntl(fd.get(), F_GETFL);
  if (mode < 0 || (mode & O_ACCMODE) != flags) {
    return fail(Code::Invalid, "the agent sent the wrong end of a pipe");
  }
  auto own = open_file(fmt::format("/proc/self/fd/{}", fd.get()), flags | O_NONBLOCK | O_NOCTTY);
  // No process has the other end open any more: writing is useless.
  if (!own && own.error().os_errno == ENXIO) return UniqueFd();
  return own;
}

Result<Code> code_from(std::uint8_t value) {
  if (value > static_cast<std::uint8_t>(Code::Os)) {
    return fail(Code::Invalid, "the agent speaks of an unknown kind of error");
  }
  return static_cast<Code>(value);
}

// Words of the box, for people: bounded, and without what a terminal would obey.
std::string shown(std::string_view text) {
  std::string safe(text.substr(0, kMaxSentence));
  std::ranges::replace_if(
      safe, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return safe;
}

tl::unexpected<Error> unexpected_frame(const char* what, Id id) {
  return fail(Code::Invalid, "the agent sent {} for {}, which does not fit what was asked", what,
              id);
}

bool is_possible(const RunEnded& end, RunMode mode) {
  const std::uint32_t most = end.kind == EndKind::Exited ? 255 : 64;
  return end.value <= most && (mode == RunMode::Shell) == (end.shell != ShellState::None) &&
         (end.kind == EndKind::Exited || end.value != 0);
}

// Code that fits goes with the run, because every frame wakes the agent; else in parts before it.
Result<std::vector<Request>> frames_of(Id id, StartRun& run) {
  if (run.code.size() <= kMaxChunk && encode(Frame<Request>{id, 0, run})) {
    std::vector<Request> one{run};
    run.code.clear();
    return one;
  }
  const std::string code = std::exchange(run.code, {});
  // Whether the rest fits is known before the first part is sent.
  TRY_VOID(encode(Frame<Request>{id, 0, run}));
  std::vector<Request> frames;
  for (std::size_t at = 0; at < code.size(); at += kMaxChunk) {
    frames.emplace_back(CodePart{code.substr(at, kMaxChunk)});
  }
  frames.emplace_back(run);
  return frames;
}

}  // namespace

AgentLink::AgentLink(UniqueFd socket, Transport transport) : wire_(std::move(socket), transport) {}

Result<void> AgentLink::send(Id id, Request request, std::vector<UniqueFd> fds) {
  if (broken_) return fail(Code::Invalid, "the agent has broken the protocol");
  const Frame<Request> frame{id, static_cast<std::uint16_t>(fds.size()), std::move(request)};
  TRY(std::string bytes, encode(frame));
  return wire_.send(std::move(bytes), std::move(fds));
}

Result<void> AgentLink::greet(Hello hello) {
  if (greeted_) return fail(Code::Invalid, "the agent was greeted before");
  hello.version = kProtocolVersion;
  greeted_ = true;
  return send(kSessionId, std::move(hello));
}

Result<Id> AgentLink::start_run(StartRun run) {
  if (!ready_) return fail(Code::Invalid, "the agent is not ready");
  if (runs_.size() >= kMaxRuns) return fail(Code::Exhausted, "{} runs at a time", kMaxRuns);
  if (output_.size() >= kMaxStreams) {
    return fail(Code::Exhausted, "{} streams of runs that are over are still open", output_.size());
  }
  if (run.mode == RunMode::Shell && shell_run_ != kSessionId) {
    return fail(Code::Exhausted, "the session's shell is busy with run {}", shell_run_);
  }
  if (run.code.size() > kMaxCode) {
    return fail(Code::Invalid, "code of {} bytes; {} is the most", run.code.size(), kMaxCode);
  }
  if (run.io == RunIo::Terminal) run.input = RunInput::Streamed;
  const Id id = last_id_ + 1;
  TRY(std::vector<Request> frames, frames_of(id, run));
  for (Request& frame : frames) TRY_VOID(send(id, std::move(frame)));
  last_id_ = id;
  if (run.mode == RunMode::Shell) shell_run_ = id;
  runs_[id] = RunBook{std::move(run)};
  return id;
}

Result<void> AgentLink::resize(Id run, std::uint16_t rows, std::uint16_t columns) {
  if (!runs_.contains(run)) return fail(Code::NotFound, "run {} is over", run);
  return send(run, Resize{rows, columns});
}

Result<void> AgentLink::signal_run(Id run, int signal) {
  if (!runs_.contains(run)) return fail(Code::NotFound, "run {} is over", run);
  if (signal < 1 || signal > 64) return fail(Code::Invalid, "there is no signal {}", signal);
  return send(run, SignalRun{static_cast<std::uint32_t>(signal)});
}

Result<void> AgentLink::kill_run(Id run, std::chrono::milliseconds grace) {
  const auto found = runs_.find(run);
  if (found == runs_.end()) return fail(Code::NotFound, "run {} is over", run);
  if (std::exchange(found->second.killed, true)) return {};
  const auto most = static_cast<std::int64_t>(std::numeric_limits<std::uint32_t>::max());
  const auto bounded = std::clamp<std::int64_t>(grace.count(), 0, most);
  return send(run, KillRun{static_cast<std::uint32_t>(bounded)});
}

Result<Id> AgentLink::start_job(const StartJob& job, UniqueFd data) {
  if (!ready_) return fail(Code::Invalid, "the agent is not ready");
  TRY_VOID(check_job(job));
  if (jobs_.size() >= kMaxJobs) return fail(Code::Exhausted, "{} file jobs at a time", kMaxJobs);
  const JobData kind = data_of(job.kind);
  const bool needs_pipe = wire_.transport() == Transport::Packets && kind != JobData::None;
  if (needs_pipe != static_cast<bool>(data)) {
    return fail(Code::Invalid, "a file job {} a pipe", needs_pipe ? "without" : "with");
  }
  const Id id = last_id_ + 1;
  std::vector<UniqueFd> fds;
  if (data) fds.push_back(std::move(data));
  TRY_VOID(send(id, job, std::move(fds)));
  last_id_ = id;
  jobs_[id] = job.kind;
  expect_streams(id, kind == JobData::Output, false, kind == JobData::Input);
  return id;
}

Result<void> AgentLink::cancel_job(Id job) {
  if (!jobs_.contains(job)) return fail(Code::NotFound, "file job {} is over", job);
  return send(job, CancelJob{});
}

Result<void> AgentLink::shut_down() { return send(kSessionId, Shutdown{}); }

// Over packets there are no streams on this line.
void AgentLink::expect_streams(Id id, bool output, bool error, bool input) {
  if (wire_.transport() == Transport::Packets) return;
  if (output) output_[{id, Stream::Output}] = {};
  if (error) output_[{id, Stream::Error}] = {};
  if (input) input_[id] = kInitialCredit;
}

Result<void> AgentLink::write_input(Id id, std::string_view bytes) {
  const auto credit = input_.find(id);
  if (credit == input_.end()) return fail(Code::NotFound, "{} takes no input", id);
  if (bytes.size() > credit->second) {
    return fail(Code::Exhausted, "{} takes {} bytes of input for now", id, credit->second);
  }
  for (std::size_t at = 0; at < bytes.size(); at += kMaxChunk) {
    const std::string_view part = bytes.substr(at, kMaxChunk);
    TRY_VOID(send(id, Input{std::string(part)}));
    credit->second -= part.size();
  }
  return {};
}

Result<void> AgentLink::end_input(Id id) {
  if (!input_.contains(id)) return fail(Code::NotFound, "{} takes no input", id);
  return send(id, InputEnd{});
}

std::uint64_t AgentLink::input_credit(Id id) const {
  const auto credit = input_.find(id);
  return credit == input_.end() ? 0 : credit->second;
}

Result<void> AgentLink::give_credit(Id id, Stream stream, std::uint64_t bytes) {
  const auto book = output_.find({id, stream});
  if (book == output_.end()) return {};  // it has ended meanwhile
  // Never more than one window, however generous the caller.
  const std::uint64_t granted = std::min(bytes, kInitialCredit - book->second.credit);
  if (granted == 0) return {};
  book->second.credit += granted;
  return send(id, Credit{stream, granted});
}

Result<std::vector<AgentEvent>> AgentLink::on_ready() {
  if (broken_) return fail(Code::Invalid, "the agent has broken the protocol");
  const auto broke = [this](Error error) {
    broken_ = true;
    return tl::unexpected(std::move(error));
  };
  // A peer that is gone shows when it is read from; what waits for it is of no use then.
  (void)wire_.flush();
  std::vector<AgentEvent> events;
  for (int i = 0; i < kFramesPerTurn; ++i) {
    auto received = wire_.receive();
    if (!received) return broke(std::move(received).error());
    std::optional<ReceivedFrame> frame = *std::move(received);
    if (!frame) {
      if (wire_.at_end()) events.emplace_back(AgentGone{});
      return events;
    }
    auto event = take(*std::move(frame));
    if (!event) return broke(std::move(event).error());
    events.push_back(*std::move(event));
  }
  return events;
}

Result<AgentEvent> AgentLink::take(ReceivedFrame received) {
  TRY(Frame<Reply> frame, decode_reply(received.bytes));
  if (frame.fd_count != received.fds.size()) {
    return fail(Code::Invalid, "the agent announced {} descriptors and sent {}", frame.fd_count,
                received.fds.size());
  }
  const bool may_bring_fds = std::holds_alternative<RunStarted>(frame.body);
  if (!may_bring_fds && !received.fds.empty()) return unexpected_frame("descriptors", frame.id);
  if (!ready_ && !std::holds_alternative<Ready>(frame.body)) {
    return unexpected_frame("a frame before it was ready", frame.id);
  }
  return std::visit([&](auto& body) { return take_body(frame.id, body, received.fds); },
                    frame.body);
}

Result<AgentEvent> AgentLink::take_body(Id id, const Ready& ready, std::vector<UniqueFd>& /*fds*/) {
  if (!greeted_ || ready_ || id != kSessionId || ready.version != kProtocolVersion) {
    return unexpected_frame("Ready", id);
  }
  ready_ = true;
  return AgentReady{ready.shell};
}

Result<AgentEvent> AgentLink::take_body(Id id, const RunStarted& /*started*/,
                                        std::vector<UniqueFd>& fds) {
  const auto run = runs_.find(id);
  if (run == runs_.end() || run->second.begun) return unexpected_frame("RunStarted", id);
  run->second.begun = true;
  const bool has_error = run->second.asked.io == RunIo::Pipes;
  const bool has_input = run->second.asked.input == RunInput::Streamed;
  RunBegun begun;
  begun.run = id;
  if (wire_.transport() == Transport::Stream) {
    if (!fds.empty()) return unexpected_frame("descriptors", id);
    expect_streams(id, true, has_error, has_input);
    return begun;
  }
  const std::size_t wanted = std::size_t{1} + (has_error ? 1 : 0) + (has_input ? 1 : 0);
  if (fds.size() != wanted) return unexpected_frame("a wrong number of pipes", id);
  std::size_t next = 0;
  TRY(begun.output, adopt_pipe(fds[next++], O_RDONLY));
  if (has_error) {
    TRY(begun.error, adopt_pipe(fds[next++], O_RDONLY));
  }
  if (has_input) {
    TRY(begun.input, adopt_pipe(fds[next++], O_WRONLY));
  }
  return begun;
}

Result<AgentEvent> AgentLink::take_body(Id id, const RunEnded& ended,
                                        std::vector<UniqueFd>& /*fds*/) {
  const auto run = runs_.find(id);
  if (run == runs_.end() || !run->second.begun) return unexpected_frame("RunEnded", id);
  if (!is_possible(ended, run->second.asked.mode)) {
    return unexpected_frame("an impossible RunEnded", id);
  }
  close_book(id);
  return RunOver{id, ended};
}

void AgentLink::close_book(Id run) {
  runs_.erase(run);
  input_.erase(run);
  if (run == shell_run_) shell_run_ = kSessionId;
}

Result<AgentEvent> AgentLink::take_body(Id id, RunDone& done, std::vector<UniqueFd>& /*fds*/) {
  const auto run = runs_.find(id);
  if (run == runs_.end() || run->second.begun || wire_.transport() == Transport::Stream) {
    return unexpected_frame("RunDone", id);
  }
  const StartRun& asked = run->second.asked;
  const bool fits = asked.input == RunInput::Empty && is_possible(done.end, asked.mode) &&
                    (asked.io == RunIo::Pipes || done.error.empty());
  if (!fits) return unexpected_frame("an impossible RunDone", id);
  close_book(id);
  return RunWhole{id, done.end, std::move(done.output), std::move(done.error)};
}

Result<AgentEvent> AgentLink::take_body(Id id, JobEnded& ended, std::vector<UniqueFd>& /*fds*/) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return unexpected_frame("JobEnded", id);
  JobOver over;
  over.job = id;
  over.count = ended.count;
  if (!ended.message.empty() || ended.os_errno != 0) {
    TRY(const Code code, code_from(ended.code));
    over.error = Error{code, static_cast<int>(ended.os_errno & 0xfff), shown(ended.message)};
  } else if (job->second == JobKind::Info) {
    std::string_view record = ended.detail;
    TRY(over.entry, take_entry(record));
    if (!over.entry || !record.empty()) return unexpected_frame("a malformed entry", id);
  } else if (job->second == JobKind::Hash) {
    const bool is_hash = ended.detail.size() == 64 &&
                         ended.detail.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!is_hash) return unexpected_frame("a malformed hash", id);
    over.hash = std::move(ended.detail);
  }
  jobs_.erase(job);
  input_.erase(id);
  output_.erase({id, Stream::Output});
  return over;
}

Result<AgentEvent> AgentLink::take_body(Id id, Refused& refused, std::vector<UniqueFd>& /*fds*/) {
  const auto run = runs_.find(id);
  const bool waits = run != runs_.end() && !run->second.begun;
  if (!waits && !jobs_.contains(id)) return unexpected_frame("Refused", id);
  TRY(const Code code, code_from(refused.code));
  if (id == shell_run_) shell_run_ = kSessionId;
  if (waits) runs_.erase(run);
  jobs_.erase(id);
  input_.erase(id);
  output_.erase({id, Stream::Output});
  return RequestRefused{
      id, Error{code, static_cast<int>(refused.os_errno & 0xfff), shown(refused.message)}};
}

Result<AgentEvent> AgentLink::take_body(Id id, Output& output, std::vector<UniqueFd>& /*fds*/) {
  const auto book = output_.find({id, output.stream});
  if (book == output_.end()) return unexpected_frame("Output", id);
  if (output.bytes.empty() || output.bytes.size() > book->second.credit) {
    return unexpected_frame("more output than its credit", id);
  }
  book->second.credit -= output.bytes.size();
  return AgentOutput{id, output.stream, std::move(output.bytes)};
}

Result<AgentEvent> AgentLink::take_body(Id id, const OutputEnd& end,
                                        std::vector<UniqueFd>& /*fds*/) {
  if (output_.erase({id, end.stream}) == 0) return unexpected_frame("OutputEnd", id);
  return AgentOutputEnd{id, end.stream};
}

Result<AgentEvent> AgentLink::take_body(Id id, const Credit& credit,
                                        std::vector<UniqueFd>& /*fds*/) {
  const auto input = input_.find(id);
  // A credit for input whose run is over is late, not wrong.
  if (input == input_.end() && id > last_id_) return unexpected_frame("Credit", id);
  if (wire_.transport() == Transport::Packets || credit.stream != Stream::Input) {
    return unexpected_frame("Credit", id);
  }
  if (input == input_.end()) return InputCredit{id, 0};
  if (credit.bytes > kInitialCredit - input->second) {
    return unexpected_frame("more credit than was used", id);
  }
  input->second += credit.bytes;
  return InputCredit{id, credit.bytes};
}

}  // namespace glovebox::guest
