// A request() of a cell as the broker reads it. Everything in it is the cell's word.
#pragma once

#include "authority/authority_set.h"
#include "base/result.h"
#include "python/channel/python_head.h"
#include "session/python/python_plan.h"

#include <boost/json/object.hpp>

#include <string>
#include <string_view>

namespace glovebox::session {

struct BrokerRequest {
  std::string capability;
  std::string action;
  boost::json::object payload;
  std::string_view blobs;  // of the message, which outlives this

  // Bytes or text of the payload.
  std::string data(std::string_view key) const;
  bool is(std::string_view wanted, std::string_view wanted_action) const {
    return capability == wanted && action == wanted_action;
  }
};

// An answer whose value is the bytes that follow the message.
boost::json::object bytes_value(std::size_t size);

// Code::Denied with the name of the capability, unless the authority allows this use.
Result<void> check_granted(const PythonPlan& plan, const authority::Capability& use,
                           std::string_view name);

}  // namespace glovebox::session
