// Unix sockets, for a broker that lets no call on them through.
//
// The path is looked up once, in the box's own tree, and the socket that was found is connected to.
// The broker does it as the box's user, so it may do to a path what the box may: the mounts are the
// box's. In a box that is shown directories of the host, what was found is judged (socket_guard.h).

#include "authority/paths.h"
#include "base/file.h"
#include "base/plain_text.h"
#include "egress/brokered_box.h"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/un.h>

namespace glovebox::egress {
namespace {

constexpr std::chrono::milliseconds kRetry{5};
constexpr std::size_t kPathAt = offsetof(sockaddr_un, sun_path);

// Empty with errno set.
std::string read_link_of(pid_t thread, std::string_view name) {
  std::array<char, PATH_MAX> text;
  const std::string link = fmt::format("/proc/{}/{}", thread, name);
  const ssize_t length = ::readlink(link.c_str(), text.data(), text.size());
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(length));
}

// A path from the root, as the thread means it: "here", "/proc/self/fd/3/socket". The kernel's own
// links lead nowhere for another process, so they are spelled out; what is found then is judged,
// not what it was called.
std::string spell_out(pid_t thread, const std::string& path) {
  if (path.front() != '/') {
    const std::string here = read_link_of(thread, "cwd");
    return here.empty() ? here : here + "/" + path;
  }
  for (const std::string_view own : {"/proc/self/", "/proc/thread-self/", "/dev/"}) {
    if (!path.starts_with(own)) continue;
    const std::string rest = path.substr(own.size());
    const bool is_number = rest.starts_with("fd/");
    if (!is_number &&
        (own == "/dev/" || !(rest.starts_with("cwd/") || rest.starts_with("root/")))) {
      return path;
    }
    const std::size_t end = rest.find('/', is_number ? 3 : 0);
    const std::string place = read_link_of(thread, rest.substr(0, end));
    if (place.empty() || place.front() != '/') return path;
    return end == std::string::npos ? place : place + rest.substr(end);
  }
  return path;
}

UniqueFd open_path_inside(BorrowedFd root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(
      static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how))));
}

// A box that makes the socket block meanwhile has the broker wait for room in a full queue, until
// that is ended (interrupter.h). Then nothing has been done, as with one that does not block.
int connect_raw(BorrowedFd socket, const sockaddr_un& address, std::size_t length) {
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket.get(), generic, static_cast<socklen_t>(length)) == 0) return 0;
  return errno == EINTR ? EAGAIN : errno;
}

Poller::Clock::time_point end_of_patience(BorrowedFd socket) {
  const auto patience = send_timeout(socket);
  return patience ? Poller::Clock::now() + *patience : Poller::Clock::time_point::max();
}

int connect_to_file(BorrowedFd socket, BorrowedFd file) {
  sockaddr_un by_number{};
  by_number.sun_family = AF_UNIX;
  const std::string name = fmt::format("/proc/self/fd/{}", file.get());
  std::memcpy(by_number.sun_path, name.c_str(), name.size());
  return connect_raw(socket, by_number, kPathAt + name.size() + 1);
}

}  // namespace

// A term is offered only when it names the socket: a path can hold bytes that no term has.
Denied Box::host_socket_denied(BorrowedFd found) const {
  const std::string path = guard_->path_outside(found);
  const bool is_spelled = authority::AbsolutePath::parse(path).has_value();
  return {Denied::Act::Connect, is_spelled ? path : quoted(path),
          is_spelled ? fmt::format("unix={}", path) : std::string(),
          "a directory of the host does not carry its sockets along"};
}

Box::UnixAnswer Box::connect_by_path(const Attempt& attempt, const std::string& path) const {
  const std::string whole = spell_out(attempt.call.thread, path);
  if (whole.empty()) return {errno, {}};
  const UniqueFd root = open_root_of(attempt.call.thread);
  if (!root) return {EACCES, {}};
  // The tree is the box's only if it was the one who waits that it was read of.
  if (!calls_->still_waits(attempt.call.id)) return {EINTR, {}};
  const AsUser as_user(*user_);
  if (!as_user.is_in_force()) return {EACCES, {}};
  const UniqueFd found = open_path_inside(root, whole);
  if (!found) return {errno, {}};
  if (guard_ && !guard_->may_connect(found)) return {EACCES, host_socket_denied(found)};
  return {connect_to_file(attempt.original, found), {}};
}

// Abstract names belong to the socket's network, which is the box's. Other families are the
// kernel's to refuse.
Box::UnixAnswer Box::connect_unix(const Attempt& attempt) const {
  sockaddr_un address{};
  const std::size_t length = attempt.unix_address.size();
  if (length < sizeof(sa_family_t) || length > sizeof(address)) return {EINVAL, {}};
  // One of the host's, that was handed in unconnected, would lead to the host's abstract names.
  if (!user_ || network_of(attempt.original) == services_.host_network) return {EACCES, {}};
  std::memcpy(&address, attempt.unix_address.data(), length);
  if (address.sun_family == AF_UNIX && length > kPathAt && address.sun_path[0] != '\0') {
    const std::string path(address.sun_path, ::strnlen(address.sun_path, length - kPathAt));
    return connect_by_path(attempt, path);
  }
  const AsUser as_user(*user_);
  if (!as_user.is_in_force()) return {EACCES, {}};
  return {connect_raw(attempt.original, address, length), {}};
}

// A listener whose queue is full is asked again until it has room, as the kernel would wait.
void Box::on_unix_connect(Attempt attempt) {
  const int flags = ::fcntl(attempt.original.get(), F_GETFL);
  // Cannot fail on a socket that is open.
  if (attempt.blocks) (void)::fcntl(attempt.original.get(), F_SETFL, flags | O_NONBLOCK);
  UnixAnswer answer = connect_unix(attempt);
  if (attempt.blocks) (void)::fcntl(attempt.original.get(), F_SETFL, flags);
  if (answer.denied) return deny(attempt, *std::move(answer.denied), answer.error);
  const std::uint64_t id = attempt.call.id;
  if (!attempt.until) attempt.until = end_of_patience(attempt.original);
  const bool waits = answer.error == EAGAIN && attempt.blocks;
  if (!waits || Poller::Clock::now() >= *attempt.until) {
    return void(calls_->answer(id, 0, answer.error));
  }
  if (!calls_->still_waits(id) || refuse_to_wait(attempt)) return;
  Waiting waiting;
  waiting.attempt = std::move(attempt);
  waiting.place = take_place();
  waiting_.emplace(id, std::move(waiting));
  ask_again_later(id);
}

// The more of a box's calls wait the less often each is asked again, so that all together cost as
// much as one. None is while the box rests, nor right after: calls that came meanwhile are first.
void Box::ask_again_later(std::uint64_t id) {
  Waiting& waiting = waiting_.at(id);
  const auto pause = kRetry * static_cast<int>(waiting_.size());
  const auto from = std::max(Poller::Clock::now(), rests_until_);
  const auto when = std::min(from + pause, std::max(from, *waiting.attempt.until));
  waiting.deadline = services_.poller.call_at(when, [this, id] { ask_again(id); });
}

void Box::ask_again(std::uint64_t id) {
  if (Poller::Clock::now() < rests_until_) return ask_again_later(id);
  auto node = waiting_.extract(id);
  node.mapped().place.reset();
  at_its_cost([&] { on_unix_connect(std::move(node.mapped().attempt)); });
}

// A socket has to be bound before it listens, and keeps its name: what it is called from here on is
// known for good.
int Box::listen_unix(const Attempt& attempt) {
  if (!user_ || network_of(attempt.original) == services_.host_network) return EACCES;
  if (guard_) {
    if (const int error = guard_->add_own(attempt.original); error != 0) return error;
  }
  const AsUser as_user(*user_);
  if (!as_user.is_in_force()) return EACCES;
  const auto backlog = static_cast<int>(attempt.call.arguments[1]);
  return ::listen(attempt.original.get(), backlog) == 0 ? 0 : errno;
}

// One could send to every socket of the host that the box sees: the path is in memory, where it
// changes after it was read.
void Box::refuse_datagram_socket(const WaitingCall& call) {
  calls_->answer(call.id, 0, EACCES);
  sink_(Denied{Denied::Act::Send, "Unix sockets", "",
               "a box that is shown a directory of the host makes no Unix datagram socket, with "
               "which it could reach every socket there"});
}

}  // namespace glovebox::egress
