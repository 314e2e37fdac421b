// A session in the store, as text. Read back by us alone, and checked all the same.
//
// Values of variables and the text of an inline policy are not in it: they may be secrets.
#pragma once

#include "session/info.h"

#include <string>
#include <string_view>

namespace glovebox::session {

// What is remembered of a session beside its runs.
struct SessionRecord {
  SessionInfo info;
  std::vector<plan::Guarantee> guarantees;
  std::vector<std::string> proved;
  std::vector<plan::Guarantee> terms;
  SessionUsage usage;
  friend bool operator==(const SessionRecord&, const SessionRecord&) = default;
};

Result<std::string> encode_record(const SessionRecord& record);
Result<SessionRecord> decode_record(std::string_view text);

}  // namespace glovebox::session
