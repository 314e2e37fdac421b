// Capabilities and sets as tagged JSON: lossless, versioned, strict.
//
// A capability is an object whose "kind" names it:
//   {"kind":"read_path","path":"/srv"}                    and write_path, exec_path, connect_unix
//   {"kind":"connect_tcp","host":"*.example.com","port":443}
//   {"kind":"listen_tcp","host":"127.0.0.1","ports":[8000,8100]}
//   {"kind":"resolve_name","name":"example.com"}          and secret, channel
//   {"kind":"import","module":"json"}
//   {"kind":"env","name":"HOME","value":"/work"}          value is optional
//   {"kind":"subprocess","commands":["git"],"allow_shell":false}
//   {"kind":"clock"}                                      and random
//   {"kind":"cpu_budget","ms":500}                        bytes or count for the others
//
// A set lists them by effect; lists that would be empty are left out:
//   {"version":1,"allow":[...],"deny":[...],"silent":[...]}
//
// Decoding refuses an unknown version, kind or field, a field of the wrong type, a key given twice,
// and anything over the bounds (strict_json.h, AuthoritySet::kMaxRules). A secret is written as its
// name: its value is in no type that these functions take.
#pragma once

#include "authority/authority_set.h"
#include "authority/capability.h"
#include "base/result.h"

#include <boost/json/fwd.hpp>

#include <string>
#include <string_view>

namespace glovebox::authority {

inline constexpr std::uint64_t kJsonVersion = 1;

// The "kind" of a capability: "read_path".
std::string_view json_kind(const Capability& capability);

boost::json::value to_json(const Capability& capability);
Result<Capability> capability_from_json(const boost::json::value& value);

// The text of a normal form; equal sets give equal bytes, so it can be hashed. Fails only for a set
// that has outgrown what decode_set() would take.
Result<std::string> encode_set(const AuthoritySet& set);
Result<AuthoritySet> decode_set(std::string_view text);

// The same as a part of a larger document.
Result<boost::json::value> to_json(const AuthoritySet& set);
Result<AuthoritySet> set_from_json(const boost::json::value& value);

std::string encode_capability(const Capability& capability);
Result<Capability> decode_capability(std::string_view text);

}  // namespace glovebox::authority
