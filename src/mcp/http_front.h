// The server over Streamable HTTP: one endpoint, /mcp, for several clients at a time.
//
// POST carries one message. A request is answered in the same exchange, as JSON, or as a stream of
// events when the client asked to hear of progress. Each client that says `initialize` gets an id
// (Mcp-Session-Id) and everything of its own: sessions, boxes, names. GET is not offered: nothing
// is said that was not asked for. A call that its client cancels gets no answer: its request ends
// with 202 and no body, or with the end of the stream. A client that goes away frees its
// connection, and its call goes on: a client that wants it to end sends a message.
//
// A client that can send a message can run code in a box that sees the workspace, so every request
// carries a token, and none comes from a web page.
#pragma once

#include "base/result.h"
#include "mcp/mcp_server.h"

#include <string>

namespace glovebox::mcp {

struct ListenSettings {
  std::string address;  // "127.0.0.1:0"; of this host alone
  std::string token;
};

// Serves until SIGTERM or SIGINT. Says on standard error where it listens.
Result<void> serve_http(const ServerSettings& settings, const ListenSettings& listen);

}  // namespace glovebox::mcp
