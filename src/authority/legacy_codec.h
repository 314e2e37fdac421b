// PyIsolate's tagged capabilities, read and written.
//
// Its snapshots and checkpoints hold objects marked with "__pyisolate_capability__", whose value is
// one of eleven kinds, beside the kind's fields:
//
//   filesystem{roots}             reading and writing below each root
//   network{destinations}         connecting to each "host:port"
//   secrets{values}               name -> bytes in hex
//   subprocess{allowed_commands, allow_shell}
//   read_path{path} write_path{path} connect_tcp{host, port} import{module} cpu_budget{ms}
//   clock, random
//
// A document is an object of names, each with one tag or a list of tags; or a bare tag or list.
// Names carry no authority: the union of all tags does.
//
// What reads differently here than there: a path must be absolute and without "..", a port within
// 1-65535, a host a real one. A pattern, network or port range is refused: there it is a text that
// matches nothing, here it would be a wide grant. Writing implies reading in all backends. An
// unknown tag or field is refused.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace glovebox::authority {

// A secret's value found in a legacy document. It is handed over beside the authority, for the
// caller to put where secrets are kept, and is never part of the set.
struct LegacySecret {
  std::string name;
  std::string value;  // raw bytes

  friend bool operator==(const LegacySecret&, const LegacySecret&) = default;
};

struct LegacyAuthority {
  AuthoritySet authority;
  std::vector<LegacySecret> secrets;
};

Result<LegacyAuthority> decode_legacy(std::string_view text);

// Writes the set under the names PyIsolate looks at: "authority" for paths, hosts, imports and the
// budget; "subprocess", "clock", "random", "secrets" for the rest. A term that has no legacy tag (a
// denial, a range of over 256 ports, any newer kind) is refused by name, never dropped.
// Secrets are written without values: {"values":{},"references":["name"]}. PyIsolate finds no value
// under the name, and decode_legacy() reads the reference back.
Result<std::string> encode_legacy(const AuthoritySet& set);

}  // namespace glovebox::authority
