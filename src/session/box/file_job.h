// One file job with data, as a stream.
//
//   CO_TRY(auto job, co_await session->start_job(read));       // guest::JobKind::Read
//   CO_TRY(const guest::Entry entry, co_await job->read_entry());
//   while (const size_t n = co_await job->read(buffer)) ...
//   CO_TRY(const guest::JobOver over, co_await job->finish());
//
// The agent does the work inside the box, with the box's identity and the box's view, so a path
// means what it means to the code in the box and a link out of the box leads nowhere. Bytes go
// through a pipe; who reads slowly slows the agent down, and nothing piles up.
//
// Destroying a job that is not finished cancels it: a Write leaves what was there before.
#pragma once

#include "base/result.h"
#include "guest/agent/agent_link.h"

#include <boost/asio/awaitable.hpp>

#include <cstddef>
#include <span>
#include <string_view>

namespace glovebox::session {

class FileJob {
 public:
  virtual ~FileJob() = default;

  // Read, List, Search, Pack: some of the job's output. 0 is the end, and finish() says whether it
  // was a good one.
  virtual boost::asio::awaitable<Result<std::size_t>> read(std::span<char> buffer) = 0;
  // Read begins with what is known of the file. The error of a file that cannot be read comes here.
  virtual boost::asio::awaitable<Result<guest::Entry>> read_entry() = 0;

  // Write, Unpack: more input. Waits until the pipe has taken all of it. An error of the job shows
  // here or in finish().
  virtual boost::asio::awaitable<Result<void>> write(std::string_view bytes) = 0;

  // Ends the input, or gives up what was not read, and waits for the agent's last word.
  virtual boost::asio::awaitable<Result<guest::JobOver>> finish() = 0;
};

}  // namespace glovebox::session
