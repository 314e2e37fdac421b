#include "egress/brokered_box.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>

namespace glovebox::egress {
namespace {

// An IPv4 address for a program's IPv6 socket takes the mapped form, which IPv6 alone would refuse.
int domain_for(const Attempt& attempt, const Endpoint& where) {
  if (where.address.family() == authority::Family::V6) return AF_INET6;
  return attempt.kind.domain;
}

void set_number(BorrowedFd socket, int level, int name, int value) {
  // The bind that follows says what is wrong.
  (void)::setsockopt(socket.get(), level, name, &value, sizeof(value));
}

int number(BorrowedFd socket, int name) {
  int value = 0;
  socklen_t length = sizeof(value);
  return ::getsockopt(socket.get(), SOL_SOCKET, name, &value, &length) == 0 ? value : 0;
}

int try_bind(BorrowedFd socket, const RawAddress& where) {
  return ::bind(socket.get(), where.get(), where.length) == 0 ? 0 : errno;
}

}  // namespace

Result<void> Box::reserve() {
  for (const plan::Publication& published : network_.published) {
    const Endpoint where{published.address, published.outside};
    const int domain = published.address.family() == authority::Family::V4 ? AF_INET : AF_INET6;
    UniqueFd socket(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return fail_os(errno, "make a socket");
    set_number(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (const int error = try_bind(socket, raw_address(where, domain)); error != 0) {
      return fail_os(error, "publish {}", plan::to_text(published));
    }
    reserved_[published.inside] = std::move(socket);
  }
  return {};
}

// Not every kernel lets an ordinary user put a filter on a socket. Where no call is let through,
// none is needed.
bool Box::is_guarded(const Result<void>& locked) const {
  return locked.has_value() || network_.unix_calls != plan::UnixCalls::LetThrough;
}

bool Box::is_published(const Port& port) const {
  return find_published(network_.authority, network_.published, port.inside).has_value();
}

void Box::on_listen(const Attempt& attempt) {
  if (attempt.kind.domain == AF_UNIX) {
    return void(calls_->answer(attempt.call.id, 0, listen_unix(attempt)));
  }
  const bool outside = network_of(attempt.original) == services_.host_network;
  const auto found = published_.find(outside ? cookie_of(attempt.original) : 0);
  const bool may = !outside || (found != published_.end() && is_published(found->second));
  const auto backlog = static_cast<int>(attempt.call.arguments[1]);
  const int error = !may ? EACCES : ::listen(attempt.original.get(), backlog) != 0 ? errno : 0;
  calls_->answer(attempt.call.id, 0, error);
}

void Box::on_bind(Attempt attempt) {
  const std::uint64_t id = attempt.call.id;
  if (network_of(attempt.original) == services_.host_network) {
    return void(calls_->answer(id, 0, EINVAL));  // it is bound already
  }
  if (!attempt.address.endpoint) return void(calls_->answer(id, 0, EAFNOSUPPORT));
  const auto outside = attempt.kind.type == SOCK_STREAM
                           ? find_published(network_.authority, network_.published, attempt.to())
                           : std::nullopt;
  if (outside) return bind_outside(attempt, *outside);
  RawAddress raw = raw_address(attempt.to(), attempt.kind.domain);
  if (attempt.kind.domain == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&raw.storage)->sin6_scope_id = attempt.address.scope;
  }
  calls_->answer(id, 0, try_bind(attempt.original, raw));
}

void Box::bind_outside(Attempt& attempt, const Endpoint& where) {
  const std::uint64_t id = attempt.call.id;
  const int domain = domain_for(attempt, where);
  if (domain != attempt.kind.domain) return void(calls_->answer(id, 0, EAFNOSUPPORT));
  const Port port{attempt.to(), where};
  const bool is_known = std::ranges::find(ports_, port) != ports_.end();
  if (published_.size() >= kMostListeners || (!is_known && ports_.size() >= kMostListeners)) {
    return void(calls_->answer(id, 0, ENOBUFS));
  }
  auto made = make_like(attempt.original, domain);
  if (!made) return void(calls_->answer(id, 0, made.error().os_errno));
  set_number(*made, SOL_SOCKET, SO_REUSEADDR, 1);
  set_number(*made, SOL_SOCKET, SO_REUSEPORT, number(attempt.original, SO_REUSEPORT));
  if (domain == AF_INET6 && where.address.family() == authority::Family::V4) {
    set_number(*made, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (!is_guarded(never_connect(*made))) return void(calls_->answer(id, 0, EACCES));
  reserved_.erase(attempt.to().port);
  if (const int error = try_bind(*made, raw_address(where, domain)); error != 0) {
    return void(calls_->answer(id, 0, error));
  }
  attempt.made = *std::move(made);
  if (attempt.blocks) {
    const int flags = ::fcntl(attempt.made.get(), F_GETFL);
    (void)::fcntl(attempt.made.get(), F_SETFL, flags & ~O_NONBLOCK);  // cannot fail
  }
  const HandedIn handed = hand_in(attempt);
  if (handed != HandedIn::Nowhere) {
    published_.emplace(cookie_of(attempt.made), port);
    if (!is_known) ports_.push_back(port);
    sink_(Listening{attempt.to().to_text(), where.to_text()});
  }
  calls_->answer(id, 0, handed == HandedIn::Everywhere ? 0 : EMFILE);
}

}  // namespace glovebox::egress
