#include "egress/dns/dns_client.h"

#include "egress/kernel/address.h"

#include <algorithm>
#include <map>

#include <ares.h>
#include <sys/epoll.h>

namespace glovebox::egress {
namespace {

using authority::Family;

Lookup read_result(int status, const ares_addrinfo* info) {
  Lookup lookup;
  if (status == ARES_ENODATA) lookup.status = Lookup::Status::NoAddress;
  if (status == ARES_ENOTFOUND || status == ARES_EBADNAME) {
    lookup.status = Lookup::Status::NoSuchName;
  }
  if (status != ARES_SUCCESS || info == nullptr) return lookup;
  constexpr std::uint32_t kLongest = 86'400;
  std::uint32_t ttl = kLongest;
  for (const ares_addrinfo_node* node = info->nodes; node != nullptr; node = node->ai_next) {
    if (node->ai_family == AF_INET) {
      lookup.addresses.push_back(
          address_of(reinterpret_cast<sockaddr_in*>(node->ai_addr)->sin_addr));
    } else if (node->ai_family == AF_INET6) {
      lookup.addresses.push_back(
          address_of(reinterpret_cast<sockaddr_in6*>(node->ai_addr)->sin6_addr));
    }
    ttl = std::min(ttl, static_cast<std::uint32_t>(std::max(node->ai_ttl, 0)));
  }
  for (const ares_addrinfo_cname* cname = info->cnames; cname != nullptr; cname = cname->next) {
    ttl = std::min(ttl, static_cast<std::uint32_t>(std::max(cname->ttl, 0)));
  }
  lookup.status = lookup.addresses.empty() ? Lookup::Status::NoAddress : Lookup::Status::Found;
  lookup.ttl_seconds = ttl;
  return lookup;
}

class AresUpstream final : public Upstream {
 public:
  explicit AresUpstream(Poller& poller) : poller_(poller) {}
  AresUpstream(const AresUpstream&) = delete;
  AresUpstream& operator=(const AresUpstream&) = delete;
  ~AresUpstream() override {
    poller_.cancel(timer_);
    if (channel_ != nullptr) ares_destroy(channel_);  // tells what is under way
    for (const auto& [fd, token] : watches_) poller_.unwatch(token);
  }

  Result<void> start(const std::string& servers);

  void look_up(const std::string& name, Family family, Done done) override {
    ares_addrinfo_hints hints{};
    hints.ai_family = family == Family::V4 ? AF_INET : AF_INET6;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = ARES_AI_NOSORT;
    auto* kept = new Done(std::move(done));  // c-ares calls back exactly once, which frees it
    ares_getaddrinfo(channel_, name.c_str(), nullptr, &hints, &AresUpstream::on_result, kept);
    set_timer();
  }

 private:
  static void on_result(void* argument, int status, int /*timeouts*/, ares_addrinfo* info) {
    const std::unique_ptr<Done> done(static_cast<Done*>(argument));
    Lookup lookup = read_result(status, info);
    if (info != nullptr) ares_freeaddrinfo(info);
    (*done)(std::move(lookup));
  }
  static void on_socket(void* argument, ares_socket_t fd, int read, int write) {
    static_cast<AresUpstream*>(argument)->watch(
        fd, (read != 0 ? EPOLLIN : 0U) | (write != 0 ? EPOLLOUT : 0U));
  }

  void watch(int fd, std::uint32_t events);
  void set_timer();

  Poller& poller_;
  ares_channel channel_ = nullptr;
  std::map<int, Poller::Token> watches_;
  Poller::Token timer_ = Poller::kNone;
};

// Once for the whole program, as c-ares asks for.
int initialised() {
  static const int status = ares_library_init(ARES_LIB_INIT_ALL);
  return status;
}

Result<void> AresUpstream::start(const std::string& servers) {
  constexpr int kTimeoutMs = 3000;
  constexpr int kTries = 2;
  ares_options options{};
  // A name is taken as it is: no search list, and no aliases of the caller's.
  options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES;
  options.timeout = kTimeoutMs;
  options.tries = kTries;
  options.sock_state_cb = &AresUpstream::on_socket;
  options.sock_state_cb_data = this;
  const int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
  int status = initialised();
  if (status == ARES_SUCCESS) status = ares_init_options(&channel_, &options, mask);
  if (status != ARES_SUCCESS) {
    return fail(Code::Os, "read the host's resolver configuration: {}", ares_strerror(status));
  }
  if (servers.empty()) return {};
  if (ares_set_servers_ports_csv(channel_, servers.c_str()) == ARES_SUCCESS) return {};
  return fail(Code::Invalid, "'{}' is no list of name servers (192.0.2.1:53,192.0.2.2)", servers);
}

void AresUpstream::watch(int fd, std::uint32_t events) {
  const auto known = watches_.find(fd);
  if (events == 0) {
    if (known == watches_.end()) return;
    poller_.unwatch(known->second);
    watches_.erase(known);
    return;
  }
  if (known != watches_.end()) {
    (void)poller_.change(known->second, events);  // a watch that fails is told by the timeout
    return;
  }
  const auto token = poller_.watch(BorrowedFd(fd), events, [this, fd](std::uint32_t ready) {
    const bool readable = (ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    const bool writable = (ready & EPOLLOUT) != 0;
    ares_process_fd(channel_, readable ? fd : ARES_SOCKET_BAD, writable ? fd : ARES_SOCKET_BAD);
    set_timer();
  });
  if (token) watches_.emplace(fd, *token);
}

void AresUpstream::set_timer() {
  poller_.cancel(timer_);
  timeval buffer{};
  const timeval* left = ares_timeout(channel_, nullptr, &buffer);
  if (left == nullptr) return;
  const auto wait = std::chrono::seconds(left->tv_sec) + std::chrono::microseconds(left->tv_usec);
  timer_ = poller_.call_at(Poller::Clock::now() + wait, [this] {
    ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    set_timer();
  });
}

}  // namespace

Result<std::unique_ptr<Upstream>> Upstream::open(Poller& poller, const std::string& servers) {
  auto made = std::make_unique<AresUpstream>(poller);
  TRY_VOID(made->start(servers));
  return std::unique_ptr<Upstream>(std::move(made));
}

}  // namespace glovebox::egress
