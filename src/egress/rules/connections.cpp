#include "egress/rules/connections.h"

#include "base/quantity.h"

#include <fmt/format.h>

namespace glovebox::egress {

using authority::BudgetKind;

namespace {

constexpr std::size_t kMostUnheard = 4096;

// What a program has given to the kernel is on its way, whether or not the peer says that it came.
std::uint64_t spent_by(const OpenConnection& connection) {
  return connection.counters.bytes_out + connection.counters.bytes_queued;
}

}  // namespace

void Connections::set_budgets(const authority::AuthoritySet& authority) {
  most_open_ = authority.budget(BudgetKind::Connections);
  bytes_budget_ = authority.budget(BudgetKind::EgressBytes);
  rate_.set(authority.budget(BudgetKind::ConnectRate));
}

std::uint64_t Connections::bytes_out() const {
  std::uint64_t sum = bytes_closed_;
  for (const auto& [cookie, connection] : open_) sum += spent_by(connection);
  return sum;
}

// A box that asks without pause has its connections looked at for a fifth of the time at the most.
void Connections::look_again() {
  const auto start = std::chrono::steady_clock::now();
  if (start < next_look_) return;
  (void)look_at_all();
  const auto end = std::chrono::steady_clock::now();
  next_look_ = end + 4 * (end - start);
}

std::optional<std::string> Connections::find_exhausted() {
  const bool full = most_open_ && open_.size() >= *most_open_;
  if (full || bytes_budget_) look_again();
  if (most_open_ && open_.size() >= *most_open_) {
    return fmt::format("{} connections are open, as many as its budget has", open_.size());
  }
  if (bytes_budget_ && endings_ == nullptr) {
    return "this kernel does not count what its connections send, and it has a budget for that";
  }
  if (bytes_budget_ && bytes_out() >= *bytes_budget_) {
    return fmt::format("{} were sent, all that its budget has", bytes_to_text(bytes_out()));
  }
  return std::nullopt;
}

std::optional<std::string> Connections::spend_rate(const Endpoint& to) {
  const ConnectRate::Spent spent = rate_.spend(to, ConnectRate::Clock::now());
  if (spent == ConnectRate::Spent::Yes) return std::nullopt;
  const std::string budget =
      fmt::format("connect_rate={}",
                  authority::amount_to_text(BudgetKind::ConnectRate, rate_.per_second().value()));
  if (spent == ConnectRate::Spent::TooSoon) {
    return fmt::format("more often than its budget has for one destination ({})", budget);
  }
  return fmt::format("its budget is kept for {} destinations at a time, and all are in use ({})",
                     ConnectRate::kMostDestinations, budget);
}

std::optional<std::string> Connections::spend(const Endpoint& to) {
  // The rate comes last: what is refused anyway takes nothing out of it.
  if (auto exhausted = find_exhausted()) return exhausted;
  return spend_rate(to);
}

void Connections::add(OpenConnection connection) {
  // Where ends are not told by the kernel, and there is no budget, only so many are kept in mind.
  if (endings_ == nullptr && !most_open_ && open_.size() >= kMostUnheard) {
    (void)ended(open_.begin()->first, {});  // known to be there
  }
  sink_(Connected{connection.socket.cookie, connection.name, connection.socket.peer.to_text()});
  open_.emplace(connection.socket.cookie, std::move(connection));
}

void Connections::report(const OpenConnection& connection) const {
  sink_(Closed{connection.socket.cookie, connection.name, connection.socket.peer.to_text(),
               connection.counters.bytes_out, connection.counters.bytes_in,
               std::chrono::steady_clock::now() - connection.since});
}

bool Connections::ended(std::uint64_t cookie, const Counters& counters) {
  const auto found = open_.find(cookie);
  if (found == open_.end()) return false;
  // A socket that lingered on as a remnant has lost its counters.
  if (counters.bytes_out + counters.bytes_in + counters.bytes_queued > 0) {
    found->second.counters = counters;
  }
  bytes_closed_ += spent_by(found->second);
  report(found->second);
  open_.erase(found);
  return true;
}

bool Connections::is_over(std::uint64_t cookie) const {
  const auto found = open_.find(cookie);
  if (found == open_.end()) return true;
  if (endings_ == nullptr) return false;
  return endings_->look(found->second.socket).fate == Endings::Fate::Over ||
         endings_->destroy(found->second.socket);
}

bool Connections::look_at_all() {
  // A budget that cannot be counted has nothing left.
  if (endings_ == nullptr) return bytes_budget_.has_value();
  std::vector<std::uint64_t> gone;
  for (auto& [cookie, connection] : open_) {
    const Endings::Look look = endings_->look(connection.socket);
    if (look.counters) connection.counters = *look.counters;
    if (look.fate == Endings::Fate::Over) gone.push_back(cookie);
  }
  for (const std::uint64_t cookie : gone) (void)ended(cookie, {});  // known to be there
  return bytes_budget_ && bytes_out() > *bytes_budget_;
}

void Connections::close_all() {
  (void)look_at_all();  // for the counters
  while (!open_.empty()) (void)ended(open_.begin()->first, {});
}

}  // namespace glovebox::egress
