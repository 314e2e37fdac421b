#include "egress/broker.h"

#include "egress/brokered_box.h"
#include "egress/kernel/interrupter.h"
#include "egress/kernel/sock_diag.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include <sys/epoll.h>
#include <sys/resource.h>

namespace glovebox::egress {
namespace {

// Of those that this process may have. A call that waits keeps two or three, a socket of a box's
// that listens where the host's do keeps one.
std::size_t an_eighth_of_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1U << 16U;
  return std::max<std::size_t>(static_cast<std::size_t>(limit.rlim_cur) / 8, 8);
}

}  // namespace

struct Broker::State {
  Interrupter interrupter;
  std::unique_ptr<Poller> poller;
  std::unique_ptr<Upstream> upstream;
  std::unique_ptr<Endings> endings;  // null when the kernel does not tell
  std::optional<LastReference> last_reference;
  ConnectionOwners owners;
  PeerFilters filters;
  std::unique_ptr<Services> services;
  std::map<BoxId, std::unique_ptr<Box>> boxes;
  BoxId last = 0;
  Poller::Clock::time_point next_look;  // at all connections, after news were lost

  Result<Box*> find(BoxId id) {
    const auto found = boxes.find(id);
    if (found == boxes.end()) return fail(Code::NotFound, "the broker has no box {}", id);
    return found->second.get();
  }
  void on_ended(std::uint64_t cookie, const Counters& counters) {
    const auto owner = owners.find(cookie);
    if (owner == owners.end()) {
      for (const auto& [id, box] : boxes) {
        if (box->on_listener_gone(cookie)) return;
      }
      return;
    }
    const auto found = boxes.find(owner->second);
    if (found != boxes.end()) (void)found->second->connections().ended(cookie, counters);
    owners.erase(owner);
  }
  void on_endings() {
    const bool all = endings->take(
        [this](std::uint64_t cookie, const Counters& counters) { on_ended(cookie, counters); });
    const auto now = Poller::Clock::now();
    if (all || now < next_look) return;
    next_look = now + std::chrono::seconds(1);
    owners.clear();
    for (const auto& [id, box] : boxes) {
      (void)box->connections().look_at_all();
      for (const auto& [cookie, connection] : box->connections().open()) owners[cookie] = id;
    }
  }
};

Broker::Broker(std::unique_ptr<State> state) : state_(std::move(state)) {}
Broker::Broker(Broker&&) noexcept = default;
// The other one ends with what this one had, in its destructor.
Broker& Broker::operator=(Broker&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Broker::~Broker() {
  if (!state_) return;
  const Interrupter::Turn turn(state_->interrupter);
  state_->boxes.clear();  // before what they use
  state_->upstream.reset();
}

Result<Broker> Broker::open(const BrokerSettings& settings) {
  auto state = std::make_unique<State>();
  TRY_VOID(state->interrupter.open());
  TRY(state->poller, Poller::open());
  TRY(state->upstream, Upstream::open(*state->poller, settings.name_servers));
  TRY(LastReference opened, LastReference::open());
  LastReference& last_reference = state->last_reference.emplace(std::move(opened));
  const UniqueFd own(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::uint64_t network = own ? network_of(own) : 0;
  if (network == 0) {
    return fail(Code::Unsupported,
                "this kernel does not tell which network a socket belongs to (Linux 5.14 does)");
  }
  // Without it ends are not heard of, and budgets count everything there was.
  if (auto endings = Endings::open()) {
    state->endings = std::make_unique<Endings>(*std::move(endings));
  }
  state->services = std::make_unique<Services>(
      Services{*state->poller, *state->upstream, last_reference, state->owners, state->filters,
               state->endings.get(), an_eighth_of_descriptors()});
  state->services->host_network = network;
  state->services->kept.most = an_eighth_of_descriptors();
  if (state->endings) {
    TRY_VOID(state->poller->watch(state->endings->fd(), EPOLLIN,
                                  [raw = state.get()](std::uint32_t) { raw->on_endings(); }));
  }
  return Broker(std::move(state));
}

BorrowedFd Broker::fd() const { return state_->poller->fd(); }
void Broker::on_ready() {
  const Interrupter::Turn turn(state_->interrupter);
  state_->poller->run_ready();
}

Result<BoxId> Broker::add(plan::NetworkPlan network, EventSink sink) {
  if (!state_->endings && network.authority.budget(authority::BudgetKind::EgressBytes)) {
    return fail(Code::Unsupported,
                "egress_bytes: this kernel does not count what connections send (sock_diag)");
  }
  const BoxId id = ++state_->last;
  auto box = std::make_unique<Box>(*state_->services, id, std::move(network), std::move(sink));
  TRY_VOID(box->reserve());
  state_->boxes.emplace(id, std::move(box));
  return id;
}

Result<void> Broker::start(BoxId box, launch::NetworkFiles files) {
  TRY(Box * found, state_->find(box));
  return found->start(std::move(files));
}

Result<Narrowed> Broker::narrow(BoxId box, const authority::AuthoritySet& to, Existing existing) {
  TRY(Box * found, state_->find(box));
  const Interrupter::Turn turn(state_->interrupter);
  return found->narrow(to, existing);
}

void Broker::remove(BoxId box) {
  const Interrupter::Turn turn(state_->interrupter);
  state_->boxes.erase(box);
}

}  // namespace glovebox::egress
