// A session from one host to another: `glovebox session send` here, `receive` there.
//
// The two talk over standard input and output, so whatever carries those carries a session: a pipe,
// or ssh, which also says who the other host is. The checkpoint goes one way; when it is restored
// there, one line comes back with the new session and a proof that whoever sent it could open the
// file. Only then does the session here end, and only if nobody has used it since it was written
// out.
#include "app/client/service.h"
#include "app/session_command.h"
#include "app/session_state.h"
#include "base/file.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

constexpr std::string_view kReceived = "glovebox-received";
constexpr std::size_t kMaxLine = 1024;

// The other side: a program that was started for it, or whoever has the other ends of ours.
class Peer {
 public:
  static Result<Peer> start(const std::vector<std::string>& command) {
    Peer peer;
    if (command.empty()) {
      TRY(peer.out_, duplicate(1));
      TRY(peer.in_, duplicate(0));
      return peer;
    }
    int to_peer[2] = {-1, -1};
    int from_peer[2] = {-1, -1};
    if (::pipe2(to_peer, O_CLOEXEC) != 0) return fail_os(errno, "make a pipe");
    const UniqueFd their_in(to_peer[0]);
    peer.out_ = UniqueFd(to_peer[1]);
    if (::pipe2(from_peer, O_CLOEXEC) != 0) return fail_os(errno, "make a pipe");
    peer.in_ = UniqueFd(from_peer[0]);
    const UniqueFd their_out(from_peer[1]);
    TRY_VOID(peer.spawn(command, their_in, their_out));
    return peer;
  }

  Result<void> write(std::string_view bytes) const { return write_all(out_, bytes); }
  void end_output() { out_.reset(); }

  // What it says, to its end.
  Result<std::string> answer() {
    TRY(std::string text, read_fd(in_, kMaxLine));
    if (pid_ < 0) return text;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) return text;
    return fail(Code::Os, "the command that was to receive the session failed; it is still here");
  }

 private:
  Peer() = default;
  static Result<UniqueFd> duplicate(int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return fail_os(errno, "use standard input and output");
    // Ours to close: who reads the other end must see an end.
    if (fd == 1) ::close(1);
    return UniqueFd(copy);
  }

  Result<void> spawn(const std::vector<std::string>& command, BorrowedFd in, BorrowedFd out) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.get(), 0);
    posix_spawn_file_actions_adddup2(&actions, out.get(), 1);
    const int problem = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (problem != 0) return fail_os(problem, "start {}", command.front());
    return {};
  }

  UniqueFd out_;
  UniqueFd in_;
  pid_t pid_ = -1;
};

// The session there, if the line is the proof that it should be.
Result<std::string> check_answer(const std::string& line, const checkpoint::Key& key,
                                 const std::string& tag) {
  const std::string prefix = std::string(kReceived) + " ";
  const std::size_t space = line.find(' ', prefix.size());
  if (!line.starts_with(prefix) || space == std::string::npos || !line.ends_with('\n')) {
    return fail(Code::Os, "the other side has not received the session; it is still here");
  }
  const std::string session = line.substr(prefix.size(), space - prefix.size());
  const std::string proof = line.substr(space + 1, line.size() - space - 2);
  if (!checkpoint::same_proof(proof, checkpoint::proof_of_receipt(key, tag, session))) {
    return fail(Code::Denied, "the other side could not open the session; it is still here");
  }
  return session;
}

}  // namespace

Result<int> send_session(const SessionOptions& options) {
  (void)std::signal(SIGPIPE, SIG_IGN);  // a peer that goes is an error, not our end
  TRY(const checkpoint::Key key, checkpoint_key(options));
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  TRY(Peer peer, Peer::start(options.command));
  const auto to_peer = [&peer](std::string_view bytes) { return peer.write(bytes); };
  TRY(const CheckpointReply sent, fetch_checkpoint(service, options, id, key, to_peer));
  peer.end_output();
  TRY(const std::string line, peer.answer());
  TRY(const std::string session, check_answer(line, key, sent.tag));
  TRY(const Reply reply,
      service.call({.method = "DELETE",
                    .target = session_target(id, "") + "?if_used=" + escape_query(sent.used)}));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  TRY_VOID(write_all(BorrowedFd(2), fmt::format("glovebox: {} is {} there\n", id, session)));
  return 0;
}

Result<int> receive_session(const SessionOptions& options) {
  TRY(const checkpoint::Key key, checkpoint_key(options));
  TRY(const UniqueFd file, open_checkpoint("-"));
  TRY(HttpClient service, open_service(IfMissing::Start));
  TRY(const RestoreReply restored, push_checkpoint(service, options, key, file));
  const std::string proof = checkpoint::proof_of_receipt(key, restored.tag, restored.session);
  TRY_VOID(write_all(BorrowedFd(1), fmt::format("{} {} {}\n", kReceived, restored.session, proof)));
  return 0;
}

}  // namespace glovebox::app
