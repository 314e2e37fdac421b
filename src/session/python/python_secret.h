// request("secret", "hmac", {...}): a secret is used, and its value stays where it is.
//
// A secret that a Python session is granted is no file in its box, unlike in other boxes: the
// supervisor reads it when it is used and gives away what was made of it. Code that holds the grant
// can have anything signed; it cannot learn the secret, and cannot use it after its session.
#pragma once

#include "session/python/python_request.h"

#include <string>

namespace glovebox::session {

// The payload: `name` of the secret, `data` to sign, `algorithm`, "sha256" or "sha512". The value
// is the HMAC's bytes. The secret's bytes are the key as they are kept, up to kMaxSecret of them.
inline constexpr std::size_t kMaxSecret = std::size_t{64} << 10;
// What is signed at once, on the loop's thread: more would hold up others.
inline constexpr std::size_t kMaxSigned = std::size_t{1} << 20;
Result<boost::json::object> sign_with_secret(const PythonPlan& plan, const BrokerRequest& request,
                                             std::string& blob);

}  // namespace glovebox::session
