// The connect broker: makes the connections that boxes are granted, outside, and hands them in.
//
// A box lives in an empty network namespace. Its connect(2) waits in the kernel until the broker
// has answered. The broker copies the address from the box's memory once and decides on its copy:
//
//   the box's own loopback   it connects the program's own socket, of which it fetches a copy
//   granted                  it makes a socket outside with the program's options, connects it, and
//                            puts it in the place of the program's
//   anything else            EACCES, and an event that names the missing capability
//
// So no decision rests on memory that the box can change, and the bytes of a connection flow
// through the kernel alone. Only AF_UNIX calls are let through, whose paths the mounts govern; what
// a box could make of that in a race is met by Landlock and by the filter that each socket carries
// (outside_socket.h). docs/decisions/0014-connect-broker.md has the argument.
//
// One broker serves many boxes, from one thread, and never blocks for long: what takes time is
// waited for beside everything else, a box that floods it gets its turn once per round like all
// others, and a call that a box has made to wait is ended by a signal (interrupter.h). So the sink
// is called where calls that wait meet EINTR.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/rules/network_event.h"
#include "launch/network_files.h"
#include "plan/network_plan.h"

#include <cstdint>
#include <memory>
#include <string>

namespace glovebox::egress {

struct BrokerSettings {
  // Who is asked for names: "192.0.2.1:53,192.0.2.2". Empty: whom the host asks.
  std::string name_servers;
};

using BoxId = std::uint64_t;

// What happens to connections that a narrowed authority no longer grants.
enum class Existing : std::uint8_t { Keep, Cut };

// What came of narrowing a box.
struct Narrowed {
  authority::AuthoritySet lost;  // what was granted and is not any more
  std::size_t cut = 0;           // connections and listeners that were ended
};

class Broker {
 public:
  static Result<Broker> open(const BrokerSettings& settings);

  Broker(Broker&&) noexcept;
  Broker& operator=(Broker&&) noexcept;
  ~Broker();

  // Readable when on_ready() has something to do. Call it from one thread.
  BorrowedFd fd() const;
  void on_ready();

  // Serves a box from here on. The sink is called from on_ready() and from the calls below.
  // Refused when a published port cannot be had.
  Result<BoxId> add(plan::NetworkPlan network, EventSink sink);
  // The second half, when the box has started: what it handed out.
  Result<void> start(BoxId box, launch::NetworkFiles files);

  // From now on the box may do what both its authority and `to` grant, with the smaller budgets. A
  // connect that waits and is no longer granted is refused. With Cut, what the box has hidden from
  // the search is looked for again, and when it is there after the last search the sink is told
  // that the box must end (MustEnd): do it from the loop, not from the sink.
  Result<Narrowed> narrow(BoxId box, const authority::AuthoritySet& to, Existing existing);

  // Forgets a box. Calls of it that still wait fail with ENOSYS, as the kernel does it.
  void remove(BoxId box);

 private:
  struct State;
  explicit Broker(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace glovebox::egress
