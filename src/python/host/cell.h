// One cell: globals, its queue of work, and its authority.
//
// A cell belongs to one thread and one interpreter. The reader's thread puts frames into it
// (deliver, cancel, end) without touching Python; everything else happens on the cell's thread with
// the GIL held.
#pragma once

#include "python/host/api.h"
#include "python/host/frames.h"
#include "python/host/grants.h"
#include "python/host/value.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <pthread.h>

namespace glovebox::pyhost {

// What the guard lets pass on this thread at this moment. No code of the cell's runs while one of
// the first three is set.
struct GuardState {
  bool may_compile = false;          // one compilation, of the host's own
  bool is_compiling = false;         // the compiler looks for the file of a syntax error: in vain
  bool may_read_trace = false;       // frames of a traceback, by the host
  int import_depth = 0;              // inside an import that was granted,
  PyObject* import_frame = nullptr;  // by code in this frame; nothing when no code asked for it
};
extern thread_local GuardState guard_state;

// How a wait of the cell's own code ended.
enum class Waited : std::uint8_t { Ready, TimedOut, Interrupted, Ended };

class Cell {
 public:
  Cell(Channel& channel, std::uint32_t number) : channel_(channel), number_(number) {}
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  // Reader's thread.
  void deliver(Order order, Frame frame);
  // Whether it is under way. A cell among others then has a visitor announced, who must come
  // (cells.cpp): until he has been, what he raises could hit another operation.
  bool cancel(std::string_view payload);
  void make_room(std::string_view payload);
  void end();

  // Cell's thread, in the order of their use. False with an exception set; of await_begin without
  // one, when there is nothing to begin.
  bool await_begin(Frame& frame) { return next(frame); }
  bool open(PyObject* begin);
  void run();  // until the end
  void close();

  const Grants& grants() const { return grants_; }
  Grants& grants() { return grants_; }
  std::uint32_t number() const { return number_; }
  // Raised for what the authority does not allow: PermissionError and ImportError by parentage.
  PyObject* policy_error() const { return policy_error_.get(); }
  PyObject* import_denied() const { return import_denied_.get(); }
  PyObject* globals() const { return globals_.get(); }

  // Sends a message with the GIL held; it is let go while there is no room. False, with an
  // exception, when the supervisor is gone or the wait was interrupted. Answers do not wait: there
  // is one for each operation.
  bool send(Word word, const Encoder& message);
  // Tells of something that was refused. Bounded; leaves an exception that is set as it is.
  void tell_denial(std::string_view capability, std::string_view action, std::string_view rule);

  // For recv() and request(). No timeout: forever.
  Waited await_post(std::optional<std::chrono::milliseconds> timeout, Frame& frame);
  Waited await_reply(std::uint64_t id, Ref& reply);
  std::uint64_t next_request() { return ++requests_; }

  // On the main thread an interrupt is a signal.
  enum class Interrupt : std::uint8_t { Signal, Exception };
  void set_thread(pthread_t thread, Interrupt how) {
    thread_ = thread;
    interrupt_ = how;
  }
  unsigned long thread_id = 0;    // Python's
  std::atomic<int> visitors = 0;  // threads that are about to raise something in this one
  PyInterpreterState* interpreter = nullptr;
  // Functions of the interpreter that the cell's code finds replaced (imports.cpp).
  Ref create_builtin;
  Ref sys_audit;
  // Of a cell among others: what its interpreter has allocated.
  const std::atomic<std::uint64_t>* memory_used = nullptr;

 private:
  struct Operation {
    std::uint64_t id = 0;
    std::string op;
    Ref message;
  };

  Waited await_room(std::size_t bytes);
  bool make_globals();
  bool next(Frame& frame);
  void perform(const Frame& frame);
  void answer(const Operation& operation, const Ref& value);
  void answer_error(const Operation& operation);
  Ref execute(const Operation& operation);
  Ref exec_source(const std::string& source, const std::string& label);
  static Ref compile(const std::string& source, const std::string& label);
  Ref call(PyObject* message);
  Ref find_target(const std::string& target);
  Ref stats() const;
  std::uint64_t cpu_us() const;
  std::uint64_t memory_bytes() const;
  void finish_operation();
  void flush_output();
  void describe_error(Encoder& out, PyObject* type, PyObject* error, PyObject* trace);

  Channel& channel_;
  std::uint32_t number_;
  Grants grants_;
  Ref policy_error_;
  Ref import_denied_;
  Ref globals_;
  Ref defined_;
  std::map<std::string, std::string> sources_;  // by the file name that tracebacks show
  std::uint64_t requests_ = 0;
  std::uint64_t executed_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t last_us_ = 0;
  std::uint64_t cpu_start_us_ = 0;
  std::uint64_t denials_ = 0;

  std::mutex mutex_;  // of what is below
  std::condition_variable woken_;
  std::deque<Frame> work_;
  std::deque<Frame> posts_;
  std::deque<Frame> replies_;
  std::uint64_t sent_ = 0;  // messages, and their bytes, and how much of both was taken
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t taken_bytes_ = 0;
  std::uint64_t current_ = 0;  // the operation that is under way
  bool is_busy_ = false;
  bool is_cancelled_ = false;
  bool is_interrupted_ = false;
  bool is_ending_ = false;
  pthread_t thread_{};
  Interrupt interrupt_ = Interrupt::Signal;

 public:
  static std::atomic<std::uint64_t> signals_sent;
  static std::atomic<std::uint64_t> signals_seen;
};

// Sets the exception that a wait ended with. Not for Waited::Ready.
void explain_wait(Waited waited);

// Whose interpreter runs on this thread: a cell's, the host's own before there is one, or that of a
// cell that has ended, of which finalizers may be left.
struct Tenant {
  Cell* cell = nullptr;
  bool is_host = true;
};
Tenant current_tenant();
// The cell of the interpreter that runs on this thread; nothing when there is none, or it has
// ended.
inline Cell* current_cell() { return current_tenant().cell; }

// The interpreter of this thread is the cell's from here on.
void register_cell(Cell& cell);
// The cell has ended; its interpreter is still there.
void end_cell(const Cell& cell);
// So has its interpreter, of this number.
void forget_interpreter(std::int64_t id);

// post, recv, log, metric, request and caps (functions.cpp).
bool add_functions(Cell& cell, PyObject* globals);
// sys.stdout and sys.stderr (cell_output.cpp).
bool replace_output(Cell& cell);
// The builtins of the cell's own code, with the import function (imports.cpp).
Ref make_builtins(Cell& cell);
// Puts functions that ask the guard in the place of those which no event tells enough about:
// making a built-in module, naming code, opening relative to a directory; and telling of an event.
bool replace_functions(Cell& cell);
Ref import_for_cell(Cell& cell, const std::string& name, PyObject* names);

}  // namespace glovebox::pyhost
