#include "egress/broker.h"

#include "egress/box.h"
#include "egress/endings.h"

#include <cerrno>
#include <map>
#include <memory>
#include <optional>

#include <sys/epoll.h>

namespace glovebox::egress {

struct Broker::State {
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
  void on_endings() {
    const bool all = endings->take([this](std::uint64_t cookie, Counters counters) {
      if (const auto found = owners.find(cookie); found != owners.end()) {
        (void)found->second->ended(cookie, counters);  // known to be there
        return;
      }
      for (const auto& [id, box] : boxes) {
        if (box->on_listener_gone(cookie)) return;
      }
    });
    const auto now = Poller::Clock::now();
    if (all || now < next_look) return;
    next_look = now + std::chrono::seconds(1);
    for (const auto& [id, box] : boxes) (void)box->connections().look_at_all();
  }
};

Broker::Broker(std::unique_ptr<State> state) : state_(std::move(state)) {}
Broker::Broker(Broker&&) noexcept = default;
Broker& Broker::operator=(Broker&&) noexcept = default;

Broker::~Broker() {
  if (!state_) return;
  state_->boxes.clear();  // before what they use
  state_->upstream.reset();
}

Result<Broker> Broker::open(const BrokerSettings& settings) {
  auto state = std::make_unique<State>();
  TRY(state->poller, Poller::open());
  TRY(state->upstream, Upstream::open(*state->poller, settings.name_servers));
  TRY(LastReference last_reference, LastReference::open());
  state->last_reference.emplace(std::move(last_reference));
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
      Services{*state->poller, *state->upstream, *state->last_reference, state->owners,
               state->filters, state->endings.get(), network});
  if (state->endings) {
    TRY_VOID(state->poller->watch(state->endings->fd(), EPOLLIN,
                                  [raw = state.get()](std::uint32_t) { raw->on_endings(); }));
  }
  return Broker(std::move(state));
}

BorrowedFd Broker::fd() const { return state_->poller->fd(); }
void Broker::on_ready() { state_->poller->run_ready(); }

Result<BoxId> Broker::add(plan::NetworkPlan network, EventSink sink) {
  auto box = std::make_unique<Box>(*state_->services, std::move(network), std::move(sink));
  TRY_VOID(box->reserve());
  const BoxId id = ++state_->last;
  state_->boxes.emplace(id, std::move(box));
  return id;
}

Result<void> Broker::start(BoxId box, launch::NetworkFiles files) {
  TRY(Box * found, state_->find(box));
  return found->start(std::move(files));
}

Result<Narrowed> Broker::narrow(BoxId box, const authority::AuthoritySet& to, Existing existing) {
  TRY(Box * found, state_->find(box));
  return found->narrow(to, existing);
}

void Broker::remove(BoxId box) { state_->boxes.erase(box); }

}  // namespace glovebox::egress
