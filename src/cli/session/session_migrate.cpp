// A session from one host to another: `glovebox session send` here, `receive` there.
//
// The two talk over standard input and output, so whatever carries those carries a session: a pipe,
// or ssh, which also says who the other host is. Or over a TLS connection of their own, on which
// each side shows a certificate (client/tls_link.h): there the checkpoint comes in pieces, each
// behind its length, and a piece without bytes is the end, so that a cut is never taken for one.
//
// The checkpoint goes one way; when it is restored there, one line comes back with the new session
// and a proof that the receiver could open the file. Only then does the session here end, and
// only if it was not used since it was written out.
#include "base/file.h"
#include "base/pipe.h"
#include "base/quantity.h"
#include "cli/layers.h"
#include "cli/session/service_client.h"
#include "cli/session/session_command.h"
#include "cli/session/session_state.h"
#include "client/tls_link.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace glovebox::app {
namespace {

constexpr std::string_view kReceived = "glovebox-received";
constexpr std::string_view kReady = "glovebox-ready";
constexpr std::size_t kMaxLine = 1024;
constexpr std::size_t kMaxPiece = std::size_t{256} << 10;
// So long the other side may take to restore what it has received.
constexpr std::chrono::seconds kRestoring{3600};

// The other side: a program that was started for it, or the process that has the other ends of our
// streams.
class Peer {
 public:
  static Result<Peer> start(const std::vector<std::string>& command) {
    Peer peer;
    if (command.empty()) {
      TRY(peer.out_, duplicate(1));
      TRY(peer.in_, duplicate(0));
      return peer;
    }
    TRY(Pipe to_peer, open_pipe());
    TRY(Pipe from_peer, open_pipe());
    peer.out_ = std::move(to_peer.write);
    peer.in_ = std::move(from_peer.read);
    TRY_VOID(peer.spawn(command, to_peer.read, from_peer.write));
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

Result<void> check_identity(const TlsIdentity& identity) {
  if (!identity.certificate.empty() && !identity.key.empty() && !identity.authority.empty()) {
    return {};
  }
  return fail(Code::Invalid, "over TLS, --cert, --key and --ca are all needed");
}

Result<void> send_piece(TlsLink& link, std::string_view piece) {
  const auto size = static_cast<std::uint32_t>(piece.size());
  const std::array<char, 4> head{static_cast<char>(size >> 24U), static_cast<char>(size >> 16U),
                                 static_cast<char>(size >> 8U), static_cast<char>(size)};
  TRY_VOID(link.write({head.data(), head.size()}));
  return link.write(piece);
}

Result<std::size_t> receive_piece(TlsLink& link, char* to) {
  std::array<char, 4> head{};
  TRY_VOID(link.read(head.data(), head.size()));
  std::uint32_t size = 0;
  for (const char each : head) size = size << 8U | static_cast<unsigned char>(each);
  if (size > kMaxPiece) return fail(Code::Invalid, "the other side sent no session");
  TRY_VOID(link.read(to, size));
  return size;
}

// What a peer answers, with what was sent to it.
struct Sent {
  CheckpointReply checkpoint;
  std::string answer;
};

Result<Sent> send_over_tls(HttpClient& service, const SessionOptions& options,
                           const std::string& id, const checkpoint::Key& key) {
  TRY_VOID(check_identity(options.tls));
  if (!options.command.empty()) {
    return fail(Code::Invalid, "an address and a command after -- are two ways to send");
  }
  TRY(const TlsAddress address, parse_tls_address(options.to));
  TRY(TlsLink link, TlsLink::connect(options.tls, address));
  // With TLS 1.3 a client hears only here whether its certificate was accepted.
  TRY(const std::string greeting, link.read_line(kMaxLine));
  if (greeting != kReady) return fail(Code::Invalid, "the other side is no glovebox");
  const auto to_peer = [&link](std::string_view bytes) -> Result<void> {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMaxPiece))) {
      TRY_VOID(send_piece(link, bytes.substr(0, kMaxPiece)));
    }
    return {};
  };
  Sent sent;
  TRY(sent.checkpoint, fetch_checkpoint(service, options, id, key, to_peer));
  TRY_VOID(send_piece(link, ""));
  TRY_VOID(link.wait_longer(kRestoring));
  TRY(sent.answer, link.read_line(kMaxLine));
  sent.answer += '\n';
  return sent;
}

Result<Sent> send_over_streams(HttpClient& service, const SessionOptions& options,
                               const std::string& id, const checkpoint::Key& key) {
  TRY(Peer peer, Peer::start(options.command));
  const auto to_peer = [&peer](std::string_view bytes) { return peer.write(bytes); };
  Sent sent;
  TRY(sent.checkpoint, fetch_checkpoint(service, options, id, key, to_peer));
  peer.end_output();
  TRY(sent.answer, peer.answer());
  return sent;
}

// All pieces in a file without a name.
Result<UniqueFd> spool_pieces(TlsLink& link, std::uint64_t most) {
  TRY(const std::string state, state_directory());
  TRY(UniqueFd file, open_file(state, O_RDWR | O_TMPFILE, 0600));
  const auto piece = std::make_unique<char[]>(kMaxPiece);
  std::uint64_t total = 0;
  while (true) {
    TRY(const std::size_t size, receive_piece(link, piece.get()));
    if (size == 0) break;
    total += size;
    if (total > most) {
      return fail(Code::Exhausted, "more than {} bytes (--max-size)", most);
    }
    TRY_VOID(write_all(file, {piece.get(), size}));
  }
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return fail_os(errno, "go back in the file");
  return file;
}

// Restores the file, and returns the line that confirms it.
Result<std::string> take_over(const SessionOptions& options, const checkpoint::Key& key,
                              BorrowedFd file) {
  TRY(HttpClient service, open_service(IfMissing::Start));
  TRY(const RestoreReply restored, push_checkpoint(service, options, key, file));
  const std::string proof = checkpoint::proof_of_receipt(key, restored.tag, restored.session);
  return fmt::format("{} {} {}\n", kReceived, restored.session, proof);
}

Result<void> receive_one(TlsListener& listener, const SessionOptions& options,
                         const checkpoint::Key& key, std::uint64_t most) {
  TRY(TlsLink link, listener.accept());
  TRY_VOID(link.write(fmt::format("{}\n", kReady)));
  TRY(const UniqueFd file, spool_pieces(link, most));
  TRY(const std::string line, take_over(options, key, file));
  return link.write(line);
}

// Until one session was received: what is wrong with a connection is its own affair.
Result<int> receive_over_tls(const SessionOptions& options, const checkpoint::Key& key) {
  TRY_VOID(check_identity(options.tls));
  TRY(const std::uint64_t most, parse_bytes(options.most_bytes));
  TRY(const TlsAddress address, parse_tls_address(options.listen));
  TRY(TlsListener listener, TlsListener::open(options.tls, address));
  TRY_VOID(
      write_all(BorrowedFd(2), fmt::format("glovebox: receiving on {}\n", listener.address())));
  while (true) {
    const auto received = receive_one(listener, options, key, most);
    if (received) return 0;
    const std::string line =
        fmt::format("glovebox: nothing received: {}\n", received.error().message);
    TRY_VOID(write_all(BorrowedFd(2), line));
  }
}

// Words about TLS where there is none would promise what does not hold.
Result<void> check_no_tls(const SessionOptions& options, std::string_view lack) {
  const TlsIdentity& tls = options.tls;
  if (tls.certificate.empty() && tls.key.empty() && tls.authority.empty() &&
      tls.peer_name.empty()) {
    return {};
  }
  return fail(Code::Invalid, "--cert, --key, --ca and --peer-name need {}", lack);
}

}  // namespace

Result<int> send_session(const SessionOptions& options) {
  (void)std::signal(SIGPIPE, SIG_IGN);  // a peer that goes is an error, not our end
  if (options.to.empty()) TRY_VOID(check_no_tls(options, "an address: send SESSION HOST:PORT"));
  TRY(const checkpoint::Key key, checkpoint_key(options));
  TRY(HttpClient service, open_service(IfMissing::Fail));
  TRY(const std::string id, find_session(service, options.session));
  TRY(const Sent sent, options.to.empty() ? send_over_streams(service, options, id, key)
                                          : send_over_tls(service, options, id, key));
  TRY(const std::string session, check_answer(sent.answer, key, sent.checkpoint.tag));
  const std::string target =
      session_target(id, "") + "?if_used=" + escape_query(sent.checkpoint.used);
  TRY(const Reply reply, service.call({.method = "DELETE", .target = target}));
  if (!reply.ok()) return tl::unexpected(refusal_of(reply));
  TRY_VOID(write_all(BorrowedFd(2), fmt::format("glovebox: {} is {} there\n", id, session)));
  return 0;
}

Result<int> receive_session(const SessionOptions& options) {
  (void)std::signal(SIGPIPE, SIG_IGN);
  TRY(const checkpoint::Key key, checkpoint_key(options));
  if (!options.listen.empty()) return receive_over_tls(options, key);
  TRY_VOID(check_no_tls(options, "--listen ADDRESS:PORT"));
  TRY(const UniqueFd file, open_checkpoint("-"));
  TRY(const std::string line, take_over(options, key, file));
  TRY_VOID(write_all(BorrowedFd(1), line));
  return 0;
}

}  // namespace glovebox::app
