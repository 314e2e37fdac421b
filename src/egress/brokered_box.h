// One box as the broker sees it: its calls, its authority, its connections.
#pragma once

#include "egress/broker.h"
#include "egress/dns/dns_server.h"
#include "egress/kernel/as_user.h"
#include "egress/kernel/fd_references.h"
#include "egress/kernel/outside_socket.h"
#include "egress/kernel/peer_filters.h"
#include "egress/kernel/poller.h"
#include "egress/kernel/seccomp_notify.h"
#include "egress/kernel/socket_refcount.h"
#include "egress/rules/connections.h"
#include "egress/rules/egress_rules.h"
#include "egress/rules/socket_guard.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

namespace glovebox::egress {

// Whose a connection is, by its cookie: the kernel tells of the ends of all in one stream.
using ConnectionOwners = std::unordered_map<std::uint64_t, BoxId>;

// What all boxes share.
struct Services {
  Poller& poller;
  Upstream& upstream;
  LastReference& last_reference;
  ConnectionOwners& owners;
  PeerFilters& filters;
  const Endings* endings = nullptr;  // without it ends are found by looking
  std::size_t most_waiting = 128;    // calls of all boxes that wait at a time
  std::size_t waiting = 0;
  std::uint64_t host_network = 0;  // the network namespace of sockets made outside
  KeptSockets kept{};
};

// A place among the calls that wait.
struct LeaveWaiting {
  void operator()(std::size_t* count) const { --*count; }
};
using WaitingPlace = std::unique_ptr<std::size_t, LeaveWaiting>;

// One connect or bind while it is being carried out.
struct Attempt {
  WaitingCall call;
  int number = -1;                          // the program's descriptor
  std::shared_ptr<const UniqueFd> process;  // pidfd
  UniqueFd original;                        // a copy of that descriptor, until it is replaced
  SocketKind kind;
  ReadAddress address;
  std::vector<std::byte> unix_address;  // as it was read, for AF_UNIX
  UniqueFd made;                        // the socket outside that takes its place, if one does
  std::string name;                     // by which it is granted
  bool blocks = false;                  // the program's socket does
  // When a wait for a Unix socket is over (SO_SNDTIMEO), from the first wait on.
  std::optional<Poller::Clock::time_point> until;

  const Endpoint& to() const {
    GLOVEBOX_CHECK(address.endpoint.has_value());
    return *address.endpoint;
  }
  bool is_outside() const { return static_cast<bool>(made); }
  BorrowedFd socket() const { return made ? BorrowedFd(made.get()) : BorrowedFd(original.get()); }
};

class Box {
 public:
  static constexpr std::size_t kMostListeners = 1024;  // at a time, and different ports in all

  Box(Services& services, BoxId id, plan::NetworkPlan network, EventSink sink);
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;
  ~Box();

  // Makes sure of the published ports.
  Result<void> reserve();
  Result<void> start(launch::NetworkFiles files);
  Narrowed narrow(const authority::AuthoritySet& to, Existing existing);
  Connections& connections() { return connections_; }
  // True: it was one of this box's.
  bool on_listener_gone(std::uint64_t cookie) { return published_.erase(cookie) > 0; }

 private:
  struct Waiting {
    Attempt attempt;
    WaitingPlace place;
    Poller::Token watch = Poller::kNone;
    Poller::Token deadline = Poller::kNone;
    Poller::Token signals = Poller::kNone;
  };
  // What was decided on the last connect. Programs connect to one place many times.
  struct Decided {
    Endpoint to;
    std::vector<std::string> names;
    ConnectVerdict verdict;
  };
  // A port of the box that is, or was, open outside.
  struct Port {
    Endpoint inside;
    Endpoint outside;
    friend bool operator==(const Port&, const Port&) = default;
  };

  void on_listener(std::uint32_t events);
  // Does it, and has the box rest when it took long (call_backoff.h).
  void at_its_cost(const std::function<void()>& work);
  // Takes no calls for a while.
  void rest(std::chrono::nanoseconds time);
  void take_call(WaitingCall call);
  // What is the same for all of the box's threads, from the first that calls.
  void learn(const WaitingCall& call);
  // Fetches the socket and, unless it is of AF_UNIX or the call has none, the address. Nothing: the
  // call has been answered.
  std::optional<Attempt> read_call(const WaitingCall& call);
  // A copy of the descriptor that the call is about; empty with errno set.
  UniqueFd fetch_original(Attempt& attempt);
  static int read_call_address(Attempt& attempt);  // an errno

  ConnectVerdict decide(const Endpoint& to, std::vector<std::string> names);
  void on_connect(Attempt attempt);
  void on_datagram_connect(Attempt& attempt);
  void on_send(const Attempt& attempt);
  void connect_inside(Attempt attempt);
  void connect_outside(Attempt attempt, std::string name);
  void begin(Attempt attempt);
  void wait_for(Attempt attempt);
  void on_progress(std::uint64_t id);
  void look_for_signals(std::uint64_t id);
  WaitingPlace take_place() { return WaitingPlace(&++services_.waiting); }
  bool refuse_to_wait(const Attempt& attempt);  // true: too many wait already
  void finish(Attempt& attempt, int error);
  // Puts the made socket in the original's place, wherever that is known. What was handed in
  // Partly is the box's all the same, and is kept in mind like any other.
  enum class HandedIn : std::uint8_t { Nowhere, Partly, Everywhere };
  HandedIn hand_in(Attempt& attempt);
  bool install(const Attempt& attempt, const Descriptor& place);
  void note(const Attempt& attempt);

  // Unix sockets, for a broker that lets no call on them through (brokered_box_unix.cpp).
  void on_unix_connect(Attempt attempt);
  void ask_again_later(std::uint64_t id);
  void ask_again(std::uint64_t id);
  struct UnixAnswer {
    int error = 0;
    std::optional<Denied> denied;
  };
  UnixAnswer connect_unix(const Attempt& attempt) const;
  UnixAnswer connect_by_path(const Attempt& attempt, const std::string& path) const;
  Denied host_socket_denied(BorrowedFd found) const;
  int listen_unix(const Attempt& attempt);  // an errno
  void refuse_datagram_socket(const WaitingCall& call);
  void on_listen(const Attempt& attempt);

  bool is_guarded(const Result<void>& locked) const;
  void on_bind(Attempt attempt);
  void bind_outside(Attempt& attempt, const Endpoint& where);

  void deny(const Attempt& attempt, Denied denied, int error);
  void count_bytes();  // from now on, while there is a budget and something to count
  void check_bytes();

  // Narrowing (brokered_box_narrow.cpp).
  bool is_granted(const Endpoint& to, const std::string& name) const;
  void refuse_waiting();
  std::size_t cut_connections(const std::vector<std::uint64_t>& cookies);
  bool is_published(const Port& port) const;
  void close_ports();
  bool is_closed(const Endpoint& local) const;
  // The sockets at ports that are closed, but for those that are known to be others'.
  Result<std::vector<Endings::Local>> sockets_at_closed() const;
  std::size_t carry_out_cuts();
  std::size_t end_closed();  // those of which nothing is left
  void cut_again_later(Poller::Clock::duration took);
  void demand_end();
  std::vector<std::string> names_of(const Endpoint& to) const;

  Services& services_;
  BoxId id_;
  plan::NetworkPlan network_;
  EventSink sink_;
  Connections connections_;
  std::unique_ptr<Notifications> calls_;  // from start() on
  Poller::Token calls_watch_ = Poller::kNone;
  Poller::Token rest_timer_ = Poller::kNone;
  Poller::Clock::time_point rests_until_;
  std::unique_ptr<NameServer> names_;
  std::map<std::uint64_t, Waiting> waiting_;    // by the call's id
  std::map<std::uint16_t, UniqueFd> reserved_;  // by the port inside, until it is bound
  std::map<std::uint64_t, Port> published_;     // sockets that may listen outside, by cookie
  // Those that it ever bound outside. What came of a socket that listened outlives it.
  std::vector<Port> ports_;
  std::vector<Endpoint> closed_;       // no longer published: what is there is cut as soon as found
  std::set<std::uint64_t> condemned_;  // connections that are cut as soon as found
  std::set<std::uint64_t> foreign_;    // sockets at its ports that others have
  Poller::Token cut_timer_ = Poller::kNone;
  int cut_rounds_ = 0;                // of searches for the same
  bool must_end_ = false;             // the launcher was told so
  std::string pid_namespace_;         // of the box, known from its first call on
  std::optional<UserIds> user_;       // its user, known as early
  std::optional<SocketGuard> guard_;  // with plan::UnixCalls::Guard
  std::optional<Decided> decided_;    // by the authority as it is
  UniqueFd spare_;                    // a plain IPv4 socket, made ahead
  pid_t last_caller_ = -1;            // the thread of the last call, and its process
  std::shared_ptr<const UniqueFd> last_process_;
  Poller::Token byte_timer_ = Poller::kNone;
};

}  // namespace glovebox::egress
