#include "python/host/cell.h"

#include <array>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <optional>

#include <unistd.h>

namespace glovebox::pyhost {
namespace {

constexpr std::uint64_t kMostDenials = 1'000;
constexpr std::size_t kMostSources = 64;
constexpr std::size_t kMostText = std::size_t{64} << 10;

std::mutex cells_mutex;
std::map<std::int64_t, Cell*> cells;     // by the number of the interpreter; nothing: has ended
std::atomic<std::uint64_t> changes = 0;  // of the map, by which what was looked up gets old

using Clock = std::chrono::steady_clock;

// Of this process, now; 0 when the kernel does not say.
std::uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long whole = 0;
  unsigned long long resident = 0;
  const bool is_read = std::fscanf(file, "%llu %llu", &whole, &resident) == 2;
  (void)std::fclose(file);  // it was only read
  return is_read ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

// A class that no code can change: the guard makes objects of it.
Ref make_error(const char* name, PyObject* parent) {
  PyType_Slot slots[] = {{0, nullptr}};
  PyType_Spec spec = {name, 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
  const Ref parents(PyTuple_Pack(1, parent));
  return parents ? Ref(PyType_FromSpecWithBases(&spec, parents.get())) : Ref();
}

std::uint64_t id_of(PyObject* message) {
  PyObject* id = PyDict_GetItemString(message, "id");
  if (id == nullptr || !PyLong_Check(id)) return 0;
  const std::uint64_t number = PyLong_AsUnsignedLongLong(id);
  PyErr_Clear();
  return number;
}

}  // namespace

std::atomic<std::uint64_t> Cell::signals_sent = 0;
std::atomic<std::uint64_t> Cell::signals_seen = 0;

void explain_wait(Waited waited) {
  if (waited == Waited::TimedOut) {
    PyErr_SetString(PyExc_TimeoutError, "no message received");
  } else if (waited == Waited::Ended) {
    PyErr_SetString(PyExc_SystemExit, "the cell is ending");
  } else if (PyErr_CheckSignals() == 0) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  }
}

Tenant current_tenant() {
  // The same thread mostly asks about the same interpreter.
  thread_local PyInterpreterState* last = nullptr;
  thread_local Tenant found;
  thread_local std::uint64_t seen = 0;
  PyInterpreterState* now = PyInterpreterState_Get();
  if (now == last && seen == changes) return found;
  const std::scoped_lock lock(cells_mutex);
  const auto entry = cells.find(PyInterpreterState_GetID(now));
  last = now;
  seen = changes;
  found = entry == cells.end() ? Tenant() : Tenant{entry->second, /*is_host=*/false};
  return found;
}

void register_cell(Cell& cell) {
  const std::scoped_lock lock(cells_mutex);
  cells[PyInterpreterState_GetID(PyInterpreterState_Get())] = &cell;
  ++changes;
}

void end_cell(const Cell& cell) {
  const std::scoped_lock lock(cells_mutex);
  for (auto& [id, each] : cells) {
    if (each == &cell) each = nullptr;
  }
  ++changes;
}

void forget_interpreter(std::int64_t id) {
  const std::scoped_lock lock(cells_mutex);
  cells.erase(id);
  ++changes;
}

void Cell::deliver(Order order, Frame frame) {
  const std::scoped_lock lock(mutex_);
  (order == Order::Post    ? posts_
   : order == Order::Reply ? replies_
                           : work_)
      .push_back(std::move(frame));
  woken_.notify_all();
}

bool Cell::cancel(std::string_view payload) {
  const auto id = python::decode_numbers<1>(payload);
  const std::scoped_lock lock(mutex_);
  if (!id || !is_busy_ || current_ != id->front()) return false;
  is_cancelled_ = true;
  is_interrupted_ = true;
  woken_.notify_all();
  if (interrupt_ == Interrupt::Exception) {
    ++visitors;
    return true;
  }
  ++signals_sent;
  (void)::pthread_kill(thread_, SIGINT);  // the thread is there as long as the cell
  return true;
}

void Cell::make_room(std::string_view payload) {
  const auto totals = python::decode_numbers<2>(payload);
  if (!totals) return;
  const std::scoped_lock lock(mutex_);
  taken_ = (*totals)[0];
  taken_bytes_ = (*totals)[1];
  woken_.notify_all();
}

// Takes up room for one message. Without the GIL.
Waited Cell::await_room(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  while (sent_ - taken_ >= python::kMaxKept ||
         sent_bytes_ - taken_bytes_ >= python::kMaxKeptBytes) {
    if (is_ending_) return Waited::Ended;
    if (is_interrupted_) return is_interrupted_ = false, Waited::Interrupted;
    woken_.wait(lock);
  }
  ++sent_;
  sent_bytes_ += bytes;
  return Waited::Ready;
}

void Cell::end() {
  const std::scoped_lock lock(mutex_);
  is_ending_ = true;
  woken_.notify_all();
}

bool Cell::send(Word word, const Encoder& message) {
  const std::size_t size = Channel::payload_size(message.head(), message.blobs());
  bool is_sent = false;
  Waited waited = Waited::Ready;
  if (size <= python::kMaxMessage) {
    const WithoutGil released;
    if (word != Word::Answer) waited = await_room(size);
    is_sent =
        waited == Waited::Ready && channel_.send(word, number_, message.head(), message.blobs());
  }
  if (waited != Waited::Ready) return explain_wait(waited), false;
  if (!is_sent) PyErr_SetString(PyExc_OSError, "the value is too large to cross");
  return is_sent;
}

void Cell::tell_denial(std::string_view capability, std::string_view action,
                       std::string_view rule) {
  if (++denials_ > kMostDenials) return;
  const SavedError saved;
  Encoder event;
  event.raw(R"({"ev":"denial","cell":)");
  event.text(grants_.name());
  event.raw(R"(,"capability":)");
  event.text(capability);
  event.raw(R"(,"attempted_action":)");
  event.text(action.substr(0, 1024));
  event.raw(R"(,"policy_rule":)");
  event.text(rule);
  event.raw(R"(,"decision":"deny"})");
  if (!send(Word::Event, event)) PyErr_Clear();
}

Waited Cell::await_post(std::optional<std::chrono::milliseconds> timeout, Frame& frame) {
  const WithoutGil released;
  std::unique_lock lock(mutex_);
  const auto until = Clock::now() + timeout.value_or(std::chrono::hours(24 * 365));
  while (posts_.empty()) {
    if (is_ending_) return Waited::Ended;
    if (is_interrupted_) return is_interrupted_ = false, Waited::Interrupted;
    if (woken_.wait_until(lock, until) == std::cv_status::timeout && posts_.empty()) {
      return Waited::TimedOut;
    }
  }
  frame = std::move(posts_.front());
  posts_.pop_front();
  return Waited::Ready;
}

Waited Cell::await_reply(std::uint64_t id, Ref& reply) {
  while (true) {
    Frame frame;
    {
      const WithoutGil released;
      std::unique_lock lock(mutex_);
      while (replies_.empty() && !is_ending_ && !is_interrupted_) woken_.wait(lock);
      if (replies_.empty()) {
        return is_ending_ ? Waited::Ended : (is_interrupted_ = false, Waited::Interrupted);
      }
      frame = std::move(replies_.front());
      replies_.pop_front();
    }
    reply = decode(frame.payload, frame.form);
    // One that was given up earlier, or for another thread of the cell, is not ours.
    if (reply && PyDict_Check(reply.get()) && id_of(reply.get()) == id) return Waited::Ready;
    if (!reply && find_id(frame.payload, frame.form) == id) return Waited::Ready;
    PyErr_Clear();
  }
}

bool Cell::next(Frame& frame) {
  const WithoutGil released;
  std::unique_lock lock(mutex_);
  is_busy_ = false;
  while (work_.empty() && !is_ending_) woken_.wait(lock);
  if (work_.empty()) return false;
  frame = std::move(work_.front());
  work_.pop_front();
  return true;
}

void Cell::run() {
  thread_id = PyThread_get_thread_ident();
  Frame frame;
  while (next(frame)) perform(frame);
}

void Cell::perform(const Frame& frame) {
  Operation operation;
  operation.message = decode(frame.payload, frame.form);
  if (!operation.message || !PyDict_Check(operation.message.get())) {
    operation.id = find_id(frame.payload, frame.form);
    return answer_error(operation);
  }
  operation.id = id_of(operation.message.get());
  operation.op = text_at(operation.message.get(), "op");
  {
    const std::scoped_lock lock(mutex_);
    current_ = operation.id;
    is_busy_ = true;
    is_cancelled_ = is_interrupted_ = false;
  }
  const auto began = Clock::now();
  const Ref value = execute(operation);
  flush_output();
  if (value) {
    answer(operation, value);
  } else {
    answer_error(operation);
  }
  last_us_ = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began).count());
  ++operations_;
  finish_operation();
}

// An interrupt that was sent is waited for, so that it does not hit the next operation.
void Cell::finish_operation() {
  bool was_cancelled = false;
  {
    const std::scoped_lock lock(mutex_);
    is_busy_ = false;
    was_cancelled = is_cancelled_;
  }
  if (!was_cancelled) return;
  const auto until = Clock::now() + std::chrono::milliseconds(200);
  if (interrupt_ == Interrupt::Exception) {
    const WithoutGil released;  // a visitor needs it, and comes
    while (visitors > 0) ::usleep(50);
  }
  while (interrupt_ == Interrupt::Signal && signals_seen < signals_sent && Clock::now() < until) {
    ::sched_yield();
  }
  // What is raised here is what is thrown away.
  if (interrupt_ == Interrupt::Exception) (void)PyThreadState_SetAsyncExc(thread_id, nullptr);
  if (interrupt_ == Interrupt::Signal) (void)PyErr_CheckSignals();
  PyErr_Clear();
}

void Cell::answer(const Operation& operation, const Ref& value) {
  Encoder message;
  message.raw(R"({"ev":"result","id":)");
  message.number(static_cast<long long>(operation.id));
  message.raw(R"(,"value":)");
  if (!message.value(value.get())) return answer_error(operation);
  message.raw("}");
  if (!send(Word::Answer, message)) answer_error(operation);
}

void Cell::answer_error(const Operation& operation) {
  PyObject* type = nullptr;
  PyObject* error = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  const Ref held_type(type);
  const Ref held_error(error);
  const Ref held_trace(trace);
  Encoder message;
  message.raw(R"({"ev":"error","id":)");
  message.number(static_cast<long long>(operation.id));
  message.raw(R"(,"error":)");
  describe_error(message, type, error, trace);
  message.raw("}");
  PyErr_Clear();
  if (!send(Word::Answer, message)) PyErr_Clear();
}

Ref Cell::execute(const Operation& operation) {
  PyObject* message = operation.message.get();
  if (operation.op == "exec") {
    return exec_source(text_at(message, "source"), "<exec " + std::to_string(++executed_) + ">");
  }
  if (operation.op == "call") return call(message);
  if (operation.op == "stats") return stats();
  if (operation.op == "define") {
    const std::string name = text_at(message, "name");
    if (!exec_source(text_at(message, "source"), "<define " + name + ">")) return Ref();
    PyObject* made = PyDict_GetItemString(globals_.get(), name.c_str());
    if (made == nullptr) {
      PyErr_Format(PyExc_NameError, "the source does not define '%s'", name.c_str());
      return Ref();
    }
    if (PyDict_SetItemString(defined_.get(), name.c_str(), made) != 0) return Ref();
    return Ref::borrow(Py_None);
  }
  PyErr_Format(PyExc_ValueError, "there is no operation '%s'", operation.op.c_str());
  return Ref();
}

// The event comes first of all. What a warning of the compiler's may run comes after it.
Ref Cell::compile(const std::string& source, const std::string& label) {
  const WithoutCollector still;
  guard_state.may_compile = true;  // once
  guard_state.is_compiling = true;
  Ref code(Py_CompileString(source.c_str(), label.c_str(), Py_file_input));
  guard_state.may_compile = guard_state.is_compiling = false;
  return code;
}

Ref Cell::exec_source(const std::string& source, const std::string& label) {
  if (source.find('\0') != std::string::npos) {
    PyErr_SetString(PyExc_ValueError, "the source contains a null byte");
    return Ref();
  }
  if (sources_.size() >= kMostSources) sources_.clear();
  sources_[label] = source.substr(0, kMostText);
  const Ref code = compile(source, label);
  if (!code) return Ref();
  const Ref done(PyEval_EvalCode(code.get(), globals_.get(), globals_.get()));
  if (!done) return Ref();
  return Ref::borrow(Py_None);
}

Ref Cell::find_target(const std::string& target) {
  const std::size_t dot = target.rfind('.');
  if (dot == std::string::npos) {
    if (PyObject* made = PyDict_GetItemString(defined_.get(), target.c_str())) {
      return Ref::borrow(made);
    }
    PyErr_Format(PyExc_ValueError,
                 "'%s': a target is a module and a name in it, or a name that was defined",
                 target.c_str());
    return Ref();
  }
  const Ref names(PyTuple_New(0));
  const Ref module = import_for_cell(*this, target.substr(0, dot), names.get());
  if (!module) return Ref();
  return Ref(PyObject_GetAttrString(module.get(), target.c_str() + dot + 1));
}

Ref Cell::call(PyObject* message) {
  const Ref function = find_target(text_at(message, "target"));
  if (!function) return Ref();
  PyObject* arguments = PyDict_GetItemString(message, "args");
  PyObject* named = PyDict_GetItemString(message, "kwargs");
  const Ref tuple(arguments != nullptr && PyList_Check(arguments) ? PyList_AsTuple(arguments)
                                                                  : PyTuple_New(0));
  if (!tuple) return Ref();
  if (named != nullptr && !PyDict_Check(named)) named = nullptr;
  return Ref(PyObject_Call(function.get(), tuple.get(), named));
}

// A cell among others has one thread, an interpreter alone the process.
std::uint64_t Cell::cpu_us() const {
  const bool is_alone = interrupt_ == Interrupt::Signal;
  timespec time{};
  // Cannot fail for one's own thread and process.
  (void)::clock_gettime(is_alone ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec) / 1'000;
}

std::uint64_t Cell::memory_bytes() const {
  return memory_used != nullptr ? memory_used->load() : resident_bytes();
}

Ref Cell::stats() const {
  const auto used = static_cast<double>(cpu_us() - cpu_start_us_) / 1000.0;
  return Ref(Py_BuildValue("{s:d,s:K,s:K,s:K,s:K}", "cpu_ms", used, "memory_bytes", memory_bytes(),
                           "latency_us", last_us_, "ops", operations_, "denials", denials_));
}

void Cell::flush_output() {
  const SavedError saved;
  for (const char* name : {"stdout", "stderr"}) {
    PyObject* stream = PySys_GetObject(name);
    if (stream == nullptr || stream == Py_None) continue;
    const Ref held = Ref::borrow(stream);
    const Ref flushed(PyObject_CallMethod(held.get(), "flush", nullptr));
    if (!flushed) PyErr_Clear();
  }
}

bool Cell::make_globals() {
  globals_ = Ref(PyDict_New());
  defined_ = Ref(PyDict_New());
  const Ref builtins = make_builtins(*this);
  const Ref name = make_text("__main__");
  return globals_ && defined_ && builtins && name &&
         PyDict_SetItemString(globals_.get(), "__builtins__", builtins.get()) == 0 &&
         PyDict_SetItemString(globals_.get(), "__name__", name.get()) == 0 &&
         add_functions(*this, globals_.get());
}

bool Cell::open(PyObject* begin) {
  if (!grants_.read(begin)) return false;
  requests_ = grants_.last_request();
  cpu_start_us_ = cpu_us();
  policy_error_ = make_error("glovebox.PolicyError", PyExc_PermissionError);
  import_denied_ = make_error("glovebox.ImportDenied", PyExc_ImportError);
  return policy_error_ && import_denied_ && make_globals() && replace_output(*this) &&
         replace_functions(*this);
}

void Cell::close() {
  globals_.reset();
  defined_.reset();
  policy_error_.reset();
  import_denied_.reset();
  create_builtin.reset();
  sys_audit.reset();
}

}  // namespace glovebox::pyhost
