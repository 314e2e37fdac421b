// Capabilities as people type and read them: "read=/srv", "connect=api.example.com:443", "clock".
//
// One form for the command line, for diagnostics and for `policy explain`. parse_term() takes what
// to_text() gives, to equality, for every kind.
//
//   read write exec unix     = path              connect     = host:ports
//   resolve                  = name              listen      = address:ports
//   import                   = module            env         = NAME or NAME=value
//   secret channel           = name              subprocess  = command[,command...]
//   clock random             no value            subprocess_shell = the same, strings allowed
//   syscalls                 = group
//   cpu wall = duration    memory disk output egress_bytes = bytes
//   pids inodes open_files connections = count             connect_rate = count/s
#pragma once

#include "authority/capability.h"
#include "base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace glovebox::authority {

Result<Capability> parse_term(std::string_view term);
// For a front end that has the two parts already, such as --allow KIND=VALUE.
Result<Capability> parse_term(std::string_view word, std::string_view value);

// The term's word alone ("read"), and the whole term.
std::string_view term_word(const Capability& capability);
std::string to_text(const Capability& capability);

// "deny write=/srv/private"; for people. Always one line: the newlines that a variable's value may
// have come out as \x0a, so that a value cannot pass for a second rule.
std::string to_text(const Rule& rule);

// Every word that parse_term() knows, for help texts and for "did you mean".
std::vector<std::string_view> term_words();

}  // namespace glovebox::authority
