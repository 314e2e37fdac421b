// What an HttpClient is made of. Only the files that speak HTTP include this.
#pragma once

#include "client/http_client.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>

namespace glovebox::app {

struct HttpClient::Connection {
  explicit Connection(ServiceAddress to) : address(std::move(to)), socket(loop) {}

  std::string host_header() const { return address.socket.empty() ? address.host : "localhost"; }

  ServiceAddress address;
  boost::asio::io_context loop{1};
  boost::asio::generic::stream_protocol::socket socket;
  boost::beast::flat_buffer buffer;
};

}  // namespace glovebox::app
