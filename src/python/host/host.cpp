// The extension module glovebox_host: the interpreter's side of the Python channel.
//
//   python3 -I -S -c 'import sys; sys.path.insert(0, D); import glovebox_host as h; h.main(...)'
//
// It is an extension of whatever interpreter loads it, with and without a libpython, and runs in a
// box, never in the supervisor.
#include "python/host/cells.h"
#include "python/host/guard.h"
#include "python/host/process_walls.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace glovebox::pyhost {
namespace {

constexpr int kBrokenStatus = 120;
constexpr std::size_t kReaderStack = std::size_t{256} << 10;

// The channel moves out of the way: what code takes for standard input and output is not it.
bool move_channel() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
  const auto highest = static_cast<rlim_t>(channel_fd) + 2;
  if (files.rlim_cur < highest) channel_fd = static_cast<int>(files.rlim_cur) - 2;
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || ::dup3(0, channel_fd, O_CLOEXEC) < 0 ||
      ::dup3(1, channel_fd + 1, O_CLOEXEC) < 0) {
    return false;
  }
  const bool is_done = ::dup2(null, 0) == 0 && ::dup2(2, 1) == 1;
  ::close(null);
  return is_done;
}

void on_interrupt(int /*signal*/) {
  ++Cell::signals_seen;
  (void)PyErr_SetInterruptEx(SIGINT);  // safe in a handler, and has nothing to report
}

// Everything the reader's thread knows. It never touches Python.
struct Reader {
  Channel& channel;
  Cell& cell;

  void run() {
    Frame frame;
    while (channel.receive(frame)) {
      const auto order = static_cast<Order>(frame.kind);
      if (order == Order::Cancel) {
        cell.cancel(frame.payload);
      } else if (order == Order::Room) {
        cell.make_room(frame.payload);
      } else if (order == Order::End) {
        break;
      } else {
        cell.deliver(order, std::exchange(frame, {}));
      }
    }
    // Without a supervisor there is no work.
    cell.end();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::_exit(0);
  }
};

void* read_frames(void* reader) {
  const std::unique_ptr<Reader> own(static_cast<Reader*>(reader));
  own->run();
  return nullptr;
}

// With a small stack: it counts as memory of the cell.
bool start_reader(Channel& channel, Cell& cell) {
  pthread_attr_t attributes;
  pthread_t thread{};
  if (::pthread_attr_init(&attributes) != 0 ||
      ::pthread_attr_setstacksize(&attributes, kReaderStack) != 0) {
    return false;
  }
  return ::pthread_create(&thread, &attributes, read_frames, new Reader{channel, cell}) == 0;
}

bool add_path(PyObject* path, const std::string& directory) {
  const Ref text = make_text(directory);
  return text && PyList_Append(path, text.get()) == 0;
}

std::string text_of_sys(const char* name) {
  PyObject* found = PySys_GetObject(name);
  return found != nullptr && PyUnicode_Check(found) ? to_utf8(found) : "";
}

// Library roots: where sys.path leads, and the directories of packages, which site would add.
bool set_libraries(Grants& grants, const std::string& environment, const std::string& own) {
  PyObject* path = PySys_GetObject("path");
  if (path == nullptr || !PyList_Check(path)) return false;
  PyObject* version = PySys_GetObject("version_info");
  const Ref minor(version == nullptr ? nullptr : PySequence_GetItem(version, 1));
  if (!minor) return false;
  const std::string library = "/lib/python3." + std::to_string(PyLong_AsLong(minor.get()));
  if (!environment.empty()) {
    if (!add_path(path, environment + library + "/site-packages")) return false;
  } else {
    const std::string prefix = text_of_sys("prefix");
    if (!add_path(path, prefix + library + "/site-packages") ||
        !add_path(path, prefix + "/lib/python3/dist-packages")) {
      return false;
    }
  }
  for (Py_ssize_t i = 0; i < PyList_Size(path); ++i) {
    PyObject* entry = PyList_GetItem(path, i);
    if (PyUnicode_Check(entry)) grants.add_library(to_utf8(entry));
  }
  grants.add_library(own);
  return true;
}

bool set_standard(Grants& grants) {
  PyObject* names = PySys_GetObject("stdlib_module_names");
  const Ref list(names == nullptr ? nullptr : PySequence_List(names));
  if (!list) return false;
  std::unordered_set<std::string> standard;
  for (Py_ssize_t i = 0; i < PyList_Size(list.get()); ++i) {
    standard.insert(to_utf8(PyList_GetItem(list.get(), i)));
  }
  grants.set_standard(std::move(standard));
  return true;
}

// What is there from here on is shared with whatever is forked, and not looked at by collections.
bool freeze() {
  const Ref gc(PyImport_ImportModule("gc"));
  if (!gc) return false;
  const Ref collected(PyObject_CallMethod(gc.get(), "collect", nullptr));
  const Ref frozen(PyObject_CallMethod(gc.get(), "freeze", nullptr));
  return collected && frozen;
}

bool put_up_walls(const Grants& grants) {
  int problem = 0;
  if (!grants.has_exec()) problem = forbid_processes();
  if (const auto cpu = grants.cpu_ms(); problem == 0 && cpu) problem = limit_cpu(*cpu);
  if (const auto memory = grants.memory_bytes(); problem == 0 && memory) {
    problem = limit_memory(*memory);
  }
  if (problem == 0) return true;
  errno = problem;
  (void)PyErr_SetFromErrno(PyExc_OSError);
  return false;
}

// Waits for the order to begin, as the reader hands it in like any other.
bool take_begin(Cell& cell, Ref& begin) {
  Frame frame;
  if (!cell.await_begin(frame)) return false;
  begin = decode(frame.payload, frame.form);
  return static_cast<bool>(begin);
}

bool say_ready(Channel& channel, std::uint32_t cells) {
  const std::string version = text_of_sys("version");
  Encoder message;
  message.raw(R"({"ev":"ready","python":)");
  message.text(version.substr(0, version.find(' ')));
  message.raw(R"(,"cells":)");
  message.number(cells);
  message.raw("}");
  const WithoutGil released;
  return channel.send(Word::Ready, 0, message.head(), {});
}

bool preload(const std::vector<std::string>& modules) {
  for (const std::string& name : modules) {
    const Ref module(PyImport_ImportModule(name.c_str()));
    if (!module) return false;
  }
  return true;
}

[[noreturn]] void give_up() {
  PyErr_Print();
  (void)std::fflush(nullptr);
  ::_exit(kBrokenStatus);
}

// One interpreter, one cell, on the main thread.
[[noreturn]] void run_alone(Channel& channel, const CellSettings& settings) {
  static Cell cell(channel, 0);
  cell.set_thread(::pthread_self(), Cell::Interrupt::Signal);
  if (!prepare_interpreter(cell.grants(), settings) || !freeze()) give_up();
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  (void)::sigaction(SIGINT, &action, nullptr);  // a number that exists and a handler
  if (!start_reader(channel, cell)) give_up();
  Ref begin;
  if (!say_ready(channel, 1) || !take_begin(cell, begin)) ::_exit(0);
  if (!cell.open(begin.get()) || !put_up_walls(cell.grants())) give_up();
  register_cell(cell);
  cell.run();
  ::_exit(0);
}

PyObject* main_function(PyObject* /*self*/, PyObject* arguments) {
  const char* mode = nullptr;
  const char* own = nullptr;
  const char* environment = nullptr;
  PyObject* modules = nullptr;
  if (PyArg_ParseTuple(arguments, "sssO:main", &mode, &own, &environment, &modules) == 0) {
    return nullptr;
  }
  if (!move_channel() || !install_guard()) give_up();
  static Channel channel(channel_fd, channel_fd + 1);
  CellSettings settings{own, environment, {}};
  for (Py_ssize_t i = 0; PyTuple_Check(modules) && i < PyTuple_Size(modules); ++i) {
    settings.modules.push_back(to_utf8(PyTuple_GetItem(modules, i)));
  }
  if (std::string_view(mode) != "cells") run_alone(channel, settings);
  // Whether the preloads are there is found out now, not by the first cell.
  Grants first;
  if (!prepare_interpreter(first, settings) || !say_ready(channel, most_cells())) give_up();
  run_cells(channel, std::move(settings));
}

}  // namespace

bool prepare_interpreter(Grants& grants, const CellSettings& settings) {
  return set_libraries(grants, settings.environment, settings.own) && set_standard(grants) &&
         preload(settings.modules);
}

namespace {

PyMethodDef kMethods[] = {{"main", main_function, METH_VARARGS, nullptr},
                          {nullptr, nullptr, 0, nullptr}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT,
                       "glovebox_host",
                       nullptr,
                       -1,
                       kMethods,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace
}  // namespace glovebox::pyhost

PyMODINIT_FUNC PyInit_glovebox_host() { return PyModule_Create(&glovebox::pyhost::kModule); }
