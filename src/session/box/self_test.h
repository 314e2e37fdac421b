// A session that shows what it is before it is used.
//
// glovebox-probe, which shares no code with the product, is handed into the box and tries what the
// session's report says cannot be done. Outside stand canaries: a file, a TCP port, an abstract
// socket and a process. A guarantee is proved when the act was refused and its canary is untouched.
//
// What cannot be shown without harm is not tried: limits, and Landlock, whose work the other walls
// hide.
#pragma once

#include "base/result.h"
#include "session/box/live_session.h"

#include <boost/asio/awaitable.hpp>

#include <string>
#include <vector>

namespace glovebox::session {

// Where the probe lies in a box that is to be proved.
inline constexpr const char* kProbeInside = "/run/glovebox/probe";

// The names of the guarantees that were proved, as the report has them. Code::Denied when one does
// not hold, by its name. `directory` is a directory that no box may see; a canary is put there.
asio::awaitable<Result<std::vector<std::string>>> run_self_test(LiveSession& session,
                                                                std::string directory);

}  // namespace glovebox::session
