// request("connect", "exchange", {...}): one connection, some bytes there, some bytes back.
//
// The cell needs no socket and no module for it, only the grant. Its authority is asked first; then
// a program in the cell's box connects, and so everything that holds for programs of the box holds
// here: the connect broker decides on the address, names are the broker's, budgets are counted, and
// what is taken from the session while it runs is gone for this too (egress/broker.h). The host's
// own addresses are reached by nothing but a literal grant, as from every box.
#pragma once

#include "session/box/live_session.h"
#include "session/python/python_request.h"

#include <boost/asio/awaitable.hpp>

#include <string>

namespace glovebox::session {

// The payload: `host`, `port`, `data` to send (none: nothing), `most` bytes to read back (65,536),
// `timeout` in seconds for all of it (30). The value: `data`, and `ended`, whether the other side
// had nothing more to say. Reading stops at its end, at `most`, or when the time is over, whichever
// is first; time that is over before there is a connection is an error with ETIMEDOUT.
asio::awaitable<Result<boost::json::object>> exchange_bytes(LiveSession& box,
                                                            const PythonPlan& plan,
                                                            const BrokerRequest& request,
                                                            std::string& blob);

}  // namespace glovebox::session
