#include "python/host/shared_state.h"

#include "python/host/guard.h"

#include <algorithm>
#include <array>
#include <span>

namespace glovebox::pyhost {
namespace {

constexpr auto kPosix = std::to_array<const char*>({"read",
                                                    "write",
                                                    "pread",
                                                    "pwrite",
                                                    "preadv",
                                                    "pwritev",
                                                    "readv",
                                                    "writev",
                                                    "close",
                                                    "closerange",
                                                    "dup",
                                                    "dup2",
                                                    "sendfile",
                                                    "splice",
                                                    "copy_file_range",
                                                    "_exit",
                                                    "abort",
                                                    "kill",
                                                    "killpg",
                                                    "nice",
                                                    "setpriority",
                                                    "sched_setaffinity",
                                                    "sched_setscheduler",
                                                    "sched_setparam",
                                                    "setpgid",
                                                    "setsid",
                                                    "chroot",
                                                    "pidfd_open",
                                                    "eventfd",
                                                    "memfd_create",
                                                    "register_at_fork",
                                                    "set_blocking",
                                                    "set_inheritable",
                                                    "ftruncate",
                                                    "fchdir",
                                                    "fork",
                                                    "vfork",
                                                    "forkpty",
                                                    "posix_spawn",
                                                    "posix_spawnp",
                                                    "execv",
                                                    "execve",
                                                    "system",
                                                    "wait",
                                                    "waitpid",
                                                    "openpty",
                                                    "login_tty",
                                                    "tcsetpgrp",
                                                    "setuid",
                                                    "setgid",
                                                    "setreuid",
                                                    "setregid",
                                                    "setresuid",
                                                    "setresgid",
                                                    "unshare",
                                                    "setns"});
constexpr auto kThread = std::to_array<const char*>(
    {"start_new_thread", "start_new", "start_joinable_thread", "interrupt_main"});
// Signals are the process's, and so are its timers.
constexpr auto kSignal =
    std::to_array<const char*>({"alarm", "setitimer", "raise_signal", "pthread_kill",
                                "pidfd_send_signal", "set_wakeup_fd", "siginterrupt"});
constexpr auto kTime = std::to_array<const char*>({"tzset"});
// A file for tools that the whole process writes.
constexpr auto kSys =
    std::to_array<const char*>({"activate_stack_trampoline", "deactivate_stack_trampoline"});
// What lets an interpreter load modules with one state for all interpreters.
constexpr auto kImport = std::to_array<const char*>({"_override_multi_interp_extensions_check"});

struct Taken {
  const char* module;
  std::span<const char* const> functions;
};
constexpr Taken kTaken[] = {{"posix", kPosix}, {"_thread", kThread}, {"_signal", kSignal},
                            {"time", kTime},   {"sys", kSys},        {"_imp", kImport}};

constexpr std::array<std::string_view, 5> kMadeOnce = {"posix", "_thread", "_imp", "sys",
                                                       "builtins"};
// There from the start in a worker.
constexpr std::array<std::string_view, 3> kMadeOnceForCells = {"_signal", "time", "_locale"};

// Interpreters as objects, their channels, and handlers for the faults of the process.
constexpr std::array<std::string_view, 8> kKept = {
    "_interpreters",     "_interpchannels",   "_interpqueues", "_xxsubinterpreters",
    "_xxinterpchannels", "_testinternalcapi", "_testcapi",     "faulthandler"};

bool take_out(const Taken& taken) {
  const Ref loaded(PyImport_ImportModule(taken.module));
  if (!loaded) return false;
  PyObject* names = PyModule_GetDict(loaded.get());
  return std::ranges::all_of(taken.functions, [&](const char* name) {
    return PyDict_GetItemString(names, name) == nullptr || PyDict_DelItemString(names, name) == 0;
  });
}

// In the place of posix.putenv and posix.unsetenv: os.environ is the cell's own, and the C
// library's environment, which the next interpreter would begin with, is the process's.
PyObject* keep_environment(PyObject* /*self*/, PyObject* /*arguments*/) { Py_RETURN_NONE; }

// In the place of _locale.setlocale. To ask is everybody's.
PyObject* keep_locale(PyObject* /*self*/, PyObject* arguments) {
  int category = 0;
  PyObject* wanted = Py_None;
  if (PyArg_ParseTuple(arguments, "i|O:setlocale", &category, &wanted) == 0) return nullptr;
  if (wanted == Py_None) return PyUnicode_FromString("C");
  Cell* cell = current_cell();
  if (cell == nullptr) return PyErr_SetString(PyExc_RuntimeError, "the cell has ended"), nullptr;
  (void)refuse(*cell, cell->policy_error(), "host", "locale.setlocale", Verdict::Deny);
  return nullptr;
}

PyMethodDef kPutEnvironment = {"putenv", keep_environment, METH_VARARGS, nullptr};
PyMethodDef kUnsetEnvironment = {"unsetenv", keep_environment, METH_VARARGS, nullptr};
PyMethodDef kSetLocale = {"setlocale", keep_locale, METH_VARARGS, nullptr};

bool is_loaded(const char* module) {
  PyObject* modules = PySys_GetObject("modules");
  return modules != nullptr && PyDict_Check(modules) &&
         PyDict_GetItemString(modules, module) != nullptr;
}

}  // namespace

bool take_out_shared_functions() { return std::ranges::all_of(kTaken, take_out); }

bool replace_shared_functions() {
  for (PyMethodDef* method : {&kPutEnvironment, &kUnsetEnvironment}) {
    if (!replace_function("posix", method)) return false;
    // Where `os` was loaded ahead, it has names of its own for them.
    if (is_loaded("os") && !replace_function("os", method)) return false;
  }
  return static_cast<bool>(replace_function("_locale", &kSetLocale));
}

bool is_kept_from_cells(std::string_view module) {
  return std::ranges::find(kKept, module) != kKept.end();
}

bool is_made_once(std::string_view module) {
  return std::ranges::find(kMadeOnce, module) != kMadeOnce.end() ||
         (is_worker && std::ranges::find(kMadeOnceForCells, module) != kMadeOnceForCells.end());
}

Ref replace_function(const char* module, PyMethodDef* method) {
  const Ref loaded(PyImport_ImportModule(module));
  if (!loaded) return Ref();
  Ref original(PyObject_GetAttrString(loaded.get(), method->ml_name));
  const Ref name = make_text(module);
  const Ref function(PyCFunction_NewEx(method, nullptr, name.get()));
  if (!original || !function ||
      PyObject_SetAttrString(loaded.get(), method->ml_name, function.get()) != 0) {
    return Ref();
  }
  PyObject_GC_UnTrack(original.get());
  return original;
}

}  // namespace glovebox::pyhost
