// What a cell asks for with request(): done here, outside its box, if its authority allows it.
//
// The interpreter's own idea of what it may do counts for nothing. The broker decides by the
// session's AuthoritySet, does the thing with the supervisor's own means, and gives a value back.
#pragma once

#include "base/result.h"
#include "python/channel/python_message.h"
#include "session/box/live_session.h"
#include "session/python/python_plan.h"
#include "session/python/python_request.h"

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>

#include <memory>
#include <string>

namespace glovebox::session {

// What comes of a request: a message for the interpreter, and what was refused, if it was.
struct BrokerAnswer {
  PythonMessage message;
  std::string denied;  // the capability that was missing; empty when nothing was refused
};

class PythonBroker {
 public:
  // What is done with files and programs is done in the box, by its agent: the kernel holds it to
  // the same view as the cell.
  PythonBroker(std::shared_ptr<LiveSession> box, const PythonPlan& plan)
      : box_(std::move(box)), plan_(plan) {}

  // `head` is a checked request message, `message` the whole of it.
  asio::awaitable<BrokerAnswer> execute(boost::json::object head, PythonMessage message);

 private:
  asio::awaitable<Result<boost::json::object>> perform(const BrokerRequest& request,
                                                       std::string& blob);
  asio::awaitable<Result<boost::json::object>> read_file(const BrokerRequest& request,
                                                         std::string& blob);
  asio::awaitable<Result<boost::json::object>> write_file(const BrokerRequest& request);
  asio::awaitable<Result<boost::json::object>> run_command(const BrokerRequest& request);

  std::shared_ptr<LiveSession> box_;
  const PythonPlan& plan_;
};

}  // namespace glovebox::session
