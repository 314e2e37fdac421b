// What executes the code of a session inside its box: one interface, one implementation for each
// language.
//
// A worker lives on the loop's thread and reports through WorkerEvents, also from inside of its own
// calls. It holds the box's side of nothing: when the box ends, or the worker is closed, it reports
// no more. Everything it reads came out of the box and is believed no further than its framing.
#pragma once

#include "base/result.h"
#include "mcp/repl/repl_output.h"
#include "session/box/live_session.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::mcp {

namespace asio = boost::asio;

enum class Language : std::uint8_t { Bash, Python };
Result<Language> parse_language(std::string_view text);
std::string_view to_text(Language language);

struct WorkerEvents {
  std::function<void(TextStream, std::string_view)> on_text;
  std::function<void(std::string png)> on_image;
  // The code is done, and everything it printed was reported.
  std::function<void()> on_ready;
  // The code waits for standard input. The prompt may be empty.
  std::function<void(std::string prompt)> on_input_wait;
  // It is over, and says how: "[repl] session ended\n".
  std::function<void(std::string notice)> on_end;
};

class Worker {
 public:
  virtual ~Worker() = default;

  // Until it can take code.
  virtual asio::awaitable<Result<void>> start() = 0;
  // One piece of code; the next only after on_ready.
  virtual asio::awaitable<Result<void>> run(std::string code) = 0;
  // Text for code that waits for it.
  virtual asio::awaitable<Result<void>> send_input(std::string text) = 0;
  virtual void interrupt() = 0;
  // Asks it to end by itself. on_end tells if it does.
  virtual asio::awaitable<void> ask_to_end() = 0;
  // Reports nothing from here on.
  virtual void close() = 0;
};

std::shared_ptr<Worker> make_bash_worker(asio::io_context& loop,
                                         std::shared_ptr<session::LiveSession> box,
                                         WorkerEvents events);
// `interpreters` are tried in their order, inside the box.
std::shared_ptr<Worker> make_python_worker(asio::io_context& loop,
                                           std::shared_ptr<session::LiveSession> box,
                                           WorkerEvents events,
                                           std::vector<std::string> interpreters);

// The program of a Python worker, src/python/repl/worker.py.
std::string_view python_worker_source();

}  // namespace glovebox::mcp
