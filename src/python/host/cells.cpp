#include "python/host/cells.h"

#include "python/host/crash.h"
#include "python/host/guard.h"
#include "python/host/process_walls.h"
#include "python/host/shared_state.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <optional>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

extern "C" void PyThreadState_DeleteCurrent();  // exported, though not of the limited API

namespace glovebox::pyhost {
namespace {

constexpr std::size_t kParked = 4;
// CPython's own bounds on the depth of calls are made for the stack of a main thread.
constexpr std::size_t kCellStack = std::size_t{8} << 20;
constexpr std::size_t kWatchStack = std::size_t{1} << 20;
constexpr auto kWatchPeriod = std::chrono::milliseconds(20);
// Interpreters are made ahead when none was asked for in this time: making one holds the GIL,
// where cells share it, and would delay those who have just begun.
constexpr auto kQuiet = std::chrono::milliseconds(60);

// As CPython 3.12 declares them.
struct InterpreterConfig {
  int use_main_obmalloc;
  int allow_fork;
  int allow_exec;
  int allow_threads;
  int allow_daemon_threads;
  int check_multi_interp_extensions;
  int gil;
};
struct Status {
  int type;
  const char* function;
  const char* message;
  int exit_code;
};
using NewInterpreter = Status (*)(PyThreadState**, const InterpreterConfig*);
constexpr int kOwnGil = 2;

// CPython has this from 3.12 on, and the built-in types of each interpreter are its own since then.
NewInterpreter isolated_interpreter() {
  static const auto kMake =
      reinterpret_cast<NewInterpreter>(::dlsym(RTLD_DEFAULT, "Py_NewInterpreterFromConfig"));
  return kMake;
}

// An interpreter with a GIL of its own, where extension modules with one state for all
// interpreters are not loaded; and otherwise one for a cell that is alone.
PyThreadState* new_interpreter() {
  const NewInterpreter make = isolated_interpreter();
  if (make == nullptr) return Py_NewInterpreter();
  const InterpreterConfig config{0, 0, 0, 0, 0, 1, kOwnGil};
  PyThreadState* made = nullptr;
  const Status status = make(&made, &config);
  return status.type == 0 ? made : nullptr;
}

struct Seat {
  std::shared_ptr<Cell> cell;
  MemoryAccount memory;
  clockid_t clock{};
  bool is_seated = false;  // has a thread, an interpreter and an order
  bool is_told = false;    // that its time is over
  std::uint64_t cpu_start_us = 0;
};

std::uint64_t clock_us(clockid_t clock) {
  timespec time{};
  if (::clock_gettime(clock, &time) != 0) return 0;  // its thread has just ended
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec) / 1'000;
}

class Cells {
 public:
  Cells(Channel& channel, CellSettings settings)
      : channel_(channel), settings_(std::move(settings)), main_(PyInterpreterState_Get()) {}

  // Reads orders; without the GIL.
  void serve();
  bool start_thread(void* (*body)(void*), std::size_t stack);
  bool start();
  static void* cell_thread(void* self) { return static_cast<Cells*>(self)->live(), nullptr; }
  static void* watch_thread(void* self) { return static_cast<Cells*>(self)->watch(), nullptr; }

 private:
  void live();
  void take_begin(Frame frame);
  bool await_order(Frame& frame);
  void sit(const Frame& order, std::optional<Grants> prepared);
  bool start_cell_thread();
  void park_more();
  void watch();
  void interrupt(Seat& seat, PyObject* exception);
  static void visit(const std::shared_ptr<Cell>& cell, PyObject* exception);
  void tell_over(std::uint32_t number, const char* reason, const std::string& text);
  void tell_crash();
  std::shared_ptr<Seat> find(std::uint32_t number);

  Channel& channel_;
  CellSettings settings_;
  PyInterpreterState* main_;
  std::mutex mutex_;  // of what is below
  std::condition_variable ordered_;
  std::deque<Frame> orders_;  // Begin
  std::map<std::uint32_t, std::shared_ptr<Seat>> seats_;
  std::size_t parked_ = 0;
  std::size_t starting_ = 0;  // threads that are about to be parked
  std::uint32_t begun_ = 0;   // cells, in all
  std::chrono::steady_clock::time_point last_order_;
};

bool Cells::start_thread(void* (*body)(void*), std::size_t stack) {
  pthread_attr_t attributes;
  pthread_t thread{};
  if (::pthread_attr_init(&attributes) != 0 ||
      ::pthread_attr_setstacksize(&attributes, stack) != 0 ||
      ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) != 0) {
    return false;
  }
  return ::pthread_create(&thread, &attributes, body, this) == 0;
}

// One more interpreter on its way. With the lock.
bool Cells::start_cell_thread() {
  if (!start_thread(cell_thread, kCellStack)) return false;
  ++starting_;
  return true;
}

bool Cells::start() {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < std::min<std::size_t>(kParked, most_cells()); ++i) {
    if (!start_cell_thread()) return false;
  }
  return start_thread(watch_thread, kWatchStack);
}

// Keeps up the stock, one at a time. What fails here fails again when it is needed. Beside a cell
// that is to be alone no interpreter is made: it would run the host's own code with types that the
// cell may have changed.
void Cells::park_more() {
  if (most_cells() == 1) return;
  const std::scoped_lock lock(mutex_);
  const bool is_quiet = std::chrono::steady_clock::now() - last_order_ > kQuiet;
  if (is_quiet && starting_ == 0 && parked_ < orders_.size() + kParked) (void)start_cell_thread();
}

std::shared_ptr<Seat> Cells::find(std::uint32_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = seats_.find(number);
  return found == seats_.end() ? nullptr : found->second;
}

void Cells::tell_over(std::uint32_t number, const char* reason, const std::string& text) {
  Encoder message;  // holds no object: no GIL is needed
  message.raw(R"({"ev":"end","reason":)");
  message.text(reason);
  message.raw(R"(,"message":)");
  message.text(text);
  message.raw("}");
  (void)channel_.send(Word::Over, number, message.head(), {});  // a supervisor that is gone knows
}

void Cells::serve() {
  Frame frame;
  bool is_hidden = false;
  while (channel_.receive(frame)) {
    // The sender of a frame has opened the pipes by their names, which is over from here on. No
    // cell has begun yet.
    if (!std::exchange(is_hidden, true) && hide_from_proc(channel_fd) != 0) ::_exit(1);
    const auto order = static_cast<Order>(frame.kind);
    if (order == Order::Begin) {
      take_begin(std::exchange(frame, {}));
      continue;
    }
    const auto seat = find(frame.cell);
    if (!seat) continue;
    if (order == Order::Cancel) {
      if (seat->cell->cancel(frame.payload)) visit(seat->cell, PyExc_KeyboardInterrupt);
    } else if (order == Order::Room) {
      seat->cell->make_room(frame.payload);
    } else if (order == Order::End) {
      seat->cell->end();
      interrupt(*seat, PyExc_SystemExit);
    } else {
      seat->cell->deliver(order, std::exchange(frame, {}));
    }
  }
  ::_exit(0);
}

void Cells::take_begin(Frame frame) {
  // The supervisor knows; a worker that was asked all the same says no.
  if (most_cells() == 1 && begun_ > 0) {
    return tell_over(frame.cell, "closed", "this interpreter holds one cell, and has had it");
  }
  const std::scoped_lock lock(mutex_);
  ++begun_;
  auto seat = std::make_shared<Seat>();
  seat->cell = std::make_shared<Cell>(channel_, frame.cell);
  seats_[frame.cell] = std::move(seat);
  orders_.push_back(std::move(frame));
  ordered_.notify_one();
  last_order_ = std::chrono::steady_clock::now();
  if (parked_ + starting_ < orders_.size() && !start_cell_thread()) ::_exit(1);
}

bool Cells::await_order(Frame& frame) {
  std::unique_lock lock(mutex_);
  --starting_;
  ++parked_;
  while (orders_.empty()) ordered_.wait(lock);
  --parked_;
  frame = std::move(orders_.front());
  orders_.pop_front();
  return true;
}

// One thread, one interpreter, one cell.
void Cells::live() {
  const CrashStack crash_stack;
  const auto streams = most_cells() == 1 ? StandardStreams::Shared : StandardStreams::Nowhere;
  if (separate_thread(streams) != 0) ::_exit(1);
  PyThreadState* outer = PyThreadState_New(main_);
  PyEval_RestoreThread(outer);
  PyThreadState* inner = new_interpreter();
  if (inner == nullptr) ::_exit(1);
  // Everything that does not depend on whose it will be.
  std::optional<Grants> prepared(std::in_place);
  if (!prepare_interpreter(*prepared, settings_) || !take_out_shared_functions()) {
    PyErr_Clear();
    prepared.reset();
  }
  Frame order;
  {
    const WithoutGil released;
    if (!await_order(order)) ::_exit(1);
  }
  const std::int64_t id = PyInterpreterState_GetID(PyInterpreterState_Get());
  CrashStack::set_cell(order.cell);
  sit(order, std::move(prepared));
  Py_EndInterpreter(inner);
  forget_interpreter(id);
  (void)PyThreadState_Swap(outer);  // nothing was current
  PyThreadState_Clear(outer);
  PyThreadState_DeleteCurrent();
}

void Cells::sit(const Frame& order, std::optional<Grants> prepared) {
  const auto seat = find(order.cell);
  if (!seat) return;
  Cell& cell = *seat->cell;
  cell.set_thread(::pthread_self(), Cell::Interrupt::Exception);
  cell.thread_id = PyThread_get_thread_ident();
  cell.interpreter = PyInterpreterState_Get();
  cell.memory_used = &seat->memory.used;
  const Ref begin = decode(order.payload, order.form);
  const bool is_prepared = begin && prepared.has_value();
  if (is_prepared) cell.grants() = *std::move(prepared);
  const bool is_open = is_prepared && cell.open(begin.get());
  if (is_open && forbid_descriptors(channel_fd) != 0) ::_exit(1);
  if (is_open) {
    seat->memory.most = cell.grants().memory_bytes().value_or(UINT64_MAX);
    (void)::pthread_getcpuclockid(::pthread_self(), &seat->clock);  // one's own thread has one
    seat->cpu_start_us = clock_us(seat->clock);
    register_cell(cell);
    {
      const std::scoped_lock lock(mutex_);
      seat->is_seated = true;
    }
    {
      const WithoutGil released;
      (void)channel_.send(Word::Opened, order.cell, R"({"ev":"opened"})", {});  // as above
    }
    use_account(&seat->memory);
    cell.run();
    use_account(nullptr);
  } else {
    PyErr_Clear();
  }
  {
    const std::scoped_lock lock(mutex_);
    seat->is_seated = false;
    seats_.erase(order.cell);
  }
  end_cell(cell);
  PyErr_Clear();
  cell.close();
  const WithoutGil released;
  while (cell.visitors > 0) ::sched_yield();
  tell_over(order.cell, "closed", is_open ? "" : "the cell could not be opened");
}

// An exception at the cell's next step, whatever it does.
void Cells::interrupt(Seat& seat, PyObject* exception) {
  {
    const std::scoped_lock lock(mutex_);
    if (!seat.is_seated) return;
    ++seat.cell->visitors;
  }
  visit(seat.cell, exception);
}

// By a visitor who was announced: the interpreter stays until he has been. Takes the cell's GIL, so
// it may take as long as one call.
void Cells::visit(const std::shared_ptr<Cell>& cell, PyObject* exception) {
  struct Work {
    std::shared_ptr<Cell> cell;
    PyObject* exception;
  };
  auto work = std::make_unique<Work>(Work{cell, exception});
  const auto body = [](void* given) -> void* {
    const std::unique_ptr<Work> own(static_cast<Work*>(given));
    PyThreadState* state = PyThreadState_New(own->cell->interpreter);
    PyEval_RestoreThread(state);
    (void)PyThreadState_SetAsyncExc(own->cell->thread_id, own->exception);  // 0: it has just ended
    PyThreadState_Clear(state);
    PyThreadState_DeleteCurrent();
    --own->cell->visitors;
    return nullptr;
  };
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, body, work.get()) == 0) {
    (void)work.release();
    ::pthread_detach(thread);
  } else {
    --cell->visitors;
  }
}

// The process is about to die of a fault: the supervisor hears whose it was.
void Cells::tell_crash() {
  const std::uint32_t number = crashed_cell();
  if (number == 0) return;
  tell_over(number, "crash", "its interpreter met a fault");
  crash_is_told();
}

// CPU time of each cell's thread, also inside one long call.
void Cells::watch() {
  while (true) {
    park_more();
    tell_crash();
    ::usleep(static_cast<useconds_t>(std::chrono::microseconds(kWatchPeriod).count()));
    std::vector<std::shared_ptr<Seat>> late;
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& [number, seat] : seats_) {
        if (!seat->is_seated) continue;
        const auto allowed_ms = seat->cell->grants().cpu_ms();
        if (!allowed_ms) continue;
        const std::uint64_t used = clock_us(seat->clock) - seat->cpu_start_us;
        if (used > *allowed_ms * 1000) late.push_back(seat);
      }
    }
    for (const auto& seat : late) {
      if (!std::exchange(seat->is_told, true)) {
        tell_over(seat->cell->number(), "cpu", "the session's CPU time was used up");
      }
      seat->cell->end();
      interrupt(*seat, PyExc_SystemExit);
    }
  }
}

}  // namespace

std::uint32_t most_cells() { return isolated_interpreter() != nullptr ? python::kMaxCells : 1; }

void run_cells(Channel& channel, CellSettings settings) {
  static Cells cells(channel, std::move(settings));
  count_memory();
  is_worker = true;
  if (watch_crashes() != 0 || forbid_processes() != 0 || !channel.start_sender() || !cells.start())
    ::_exit(1);
  const WithoutGil released;
  cells.serve();
  ::_exit(0);
}

}  // namespace glovebox::pyhost
