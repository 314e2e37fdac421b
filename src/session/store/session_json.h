// A session in the store, as text. Read back by us alone, and checked all the same.
//
// Values of variables and the text of an inline policy are not in it: they may be secrets.
#pragma once

#include "session/store/session_info.h"

#include <boost/json/fwd.hpp>

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

// A request as a part of a larger document, without what may be a secret.
Result<boost::json::object> encode_request(const BoxRequest& request);
// Throws what Boost.JSON throws, for a missing key and a wrong type.
Result<BoxRequest> decode_request(const boost::json::object& object);

Result<std::string> encode_record(const SessionRecord& record);
Result<SessionRecord> decode_record(std::string_view text);

}  // namespace glovebox::session
