// The connections of one box: which are open, what they carried, and how much is left of its
// budgets.
#pragma once

#include "authority/authority_set.h"
#include "egress/kernel/sock_diag.h"
#include "egress/rules/connect_rate.h"
#include "egress/rules/network_event.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace glovebox::egress {

struct OpenConnection {
  SocketName socket;
  ino_t inode = 0;
  std::string name;  // by which it was granted
  std::chrono::steady_clock::time_point since;
  Counters counters;  // when last looked at
};

class Connections {
 public:
  // Without `endings` nothing is ever known to have ended: a budget then counts all there were.
  Connections(const Endings* endings, EventSink sink) : endings_(endings), sink_(std::move(sink)) {}

  void set_budgets(const authority::AuthoritySet& authority);

  // Takes one more connection to `to` out of the budgets. The one that has none left, as a
  // sentence; nothing: it may be opened.
  std::optional<std::string> spend(const Endpoint& to);
  void add(OpenConnection connection);
  // True: it was one of these.
  bool ended(std::uint64_t cookie, const Counters& counters);
  // True: it carries nothing any more, whichever process has it. Ends it itself where that is
  // allowed. Where the kernel does not tell, none is known to be over.
  bool is_over(std::uint64_t cookie) const;
  // Looks at all of them anew. True when more was sent than the budget has.
  bool look_at_all();
  // Reports those that are left as ended now.
  void close_all();

  const std::map<std::uint64_t, OpenConnection>& open() const { return open_; }
  bool counts_bytes() const { return bytes_budget_.has_value(); }

 private:
  std::uint64_t bytes_out() const;
  void look_again();
  std::optional<std::string> find_exhausted();
  std::optional<std::string> spend_rate(const Endpoint& to);
  void report(const OpenConnection& connection) const;

  const Endings* endings_;
  EventSink sink_;
  std::optional<std::uint64_t> most_open_;
  std::optional<std::uint64_t> bytes_budget_;
  std::uint64_t bytes_closed_ = 0;
  ConnectRate rate_;
  std::chrono::steady_clock::time_point next_look_;
  std::map<std::uint64_t, OpenConnection> open_;  // by cookie
};

}  // namespace glovebox::egress
