// What `import` means in a cell's own code.
//
// A module is handed out when the authority names it. `import a.b` with a grant on a.b alone gives
// an `a` that has nothing but `b`. What a granted module imports itself is loaded too (guard.cpp)
// and not handed out.
#include "python/host/cell.h"
#include "python/host/guard.h"
#include "python/host/guarded_paths.h"
#include "python/host/shared_state.h"

#include <climits>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

#include <fcntl.h>

namespace glovebox::pyhost {
namespace {

// Not among a cell's builtins: code comes over the channel. Import("builtins") gives them back.
constexpr std::array kCodeMakers = {"exec", "eval", "compile"};

// What functions in C import when they are called, through the __import__ of their caller:
// always with an empty list of names, which no statement has.
bool is_helper_call(const std::string& module, PyObject* names) {
  return names != nullptr && PyList_Check(names) && PyList_Size(names) == 0 && is_helper(module);
}

bool is_granted(const Cell& cell, const std::string& module) {
  return cell.grants().import(module) == Verdict::Allow;
}

Ref deny(Cell& cell, const std::string& module) {
  (void)refuse(cell, cell.import_denied(), "import", "import:" + module,
               cell.grants().import(module));
  return Ref();
}

// The module itself, loaded if it is not, by the machinery: PyImport_ImportModule would ask the
// __import__ of the code that runs, which is ours.
Ref load(const std::string& module) {
  const Ref any_name(Py_BuildValue("(s)", "__name__"));
  if (!any_name) return Ref();
  PyObject* const asking = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  PyObject* const outer = std::exchange(guard_state.import_frame, asking);
  ++guard_state.import_depth;
  Ref loaded(PyImport_ImportModuleLevel(module.c_str(), nullptr, nullptr, any_name.get(), 0));
  --guard_state.import_depth;
  guard_state.import_frame = outer;
  return loaded;
}

std::vector<std::string> texts_of(PyObject* sequence) {
  std::vector<std::string> texts;
  if (sequence == nullptr || sequence == Py_None) return texts;
  const Ref items(PySequence_List(sequence));
  if (!items) {
    PyErr_Clear();
    return texts;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(items.get()); ++i) {
    PyObject* item = PyList_GetItem(items.get(), i);
    if (PyUnicode_Check(item)) texts.push_back(to_utf8(item));
  }
  return texts;
}

Ref empty_module(const std::string& name) {
  const Ref text = make_text(name);
  return text ? Ref(PyModule_NewObject(text.get())) : Ref();
}

// For `import a.b.c`: a, with what is granted of the way down. Without a grant on a it is a module
// that holds the next step alone.
Ref package_for(Cell& cell, const std::string& module) {
  const std::string top = module.substr(0, module.find('.'));
  Ref target = load(module);
  if (!target || top == module || is_granted(cell, top)) {
    return target ? (top == module ? std::move(target) : load(top)) : Ref();
  }
  std::string path = module;
  Ref inner = std::move(target);
  while (path != top) {
    const std::size_t dot = path.rfind('.');
    const std::string name = path.substr(dot + 1);
    path.resize(dot);
    Ref outer = is_granted(cell, path) ? load(path) : empty_module(path);
    if (!outer) return Ref();
    if (!is_granted(cell, path) &&
        PyObject_SetAttrString(outer.get(), name.c_str(), inner.get()) != 0) {
      return Ref();
    }
    inner = std::move(outer);
  }
  return inner;
}

// `from a import x` where x is a module: it needs a grant of its own.
bool check_names(Cell& cell, const Ref& module, const std::string& name, PyObject* names) {
  for (const std::string& each : texts_of(names)) {
    if (each == "*") continue;
    const std::string full = name + "." + each;
    Ref found(PyObject_GetAttrString(module.get(), each.c_str()));
    if (!found) {
      PyErr_Clear();
      // A submodule that is not loaded yet, if it is granted; otherwise the statement fails.
      if (is_granted(cell, full) && !load(full)) return false;
      continue;
    }
    if (!PyModule_Check(found.get()) || is_granted(cell, full)) continue;
    const Ref own_name(PyModule_GetNameObject(found.get()));
    if (!own_name) PyErr_Clear();
    const std::string real = own_name ? to_utf8(own_name.get()) : full;
    if (is_granted(cell, real)) continue;
    return static_cast<bool>(deny(cell, real));
  }
  return true;
}

// `from a import b` with grants on a.b and its like, and none on a.
Ref facade(Cell& cell, const std::string& name, const std::vector<std::string>& names) {
  Ref outer = empty_module(name);
  for (const std::string& each : names) {
    const std::string full = name + "." + each;
    if (!is_granted(cell, full)) return deny(cell, name);
    const Ref inner = load(full);
    if (!outer || !inner || PyObject_SetAttrString(outer.get(), each.c_str(), inner.get()) != 0) {
      return Ref();
    }
  }
  return outer;
}

PyObject* import_function(PyObject* /*self*/, PyObject* arguments, PyObject* named) {
  static const char* words[] = {"name", "globals", "locals", "fromlist", "level", nullptr};
  const char* name = nullptr;
  PyObject* globals = nullptr;
  PyObject* locals = nullptr;
  PyObject* names = nullptr;
  int level = 0;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "s|OOOi:__import__", const_cast<char**>(words),
                                  &name, &globals, &locals, &names, &level) == 0) {
    return nullptr;
  }
  Cell* cell = current_cell();
  if (cell == nullptr || level != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "a cell's own code is no package: nothing is relative to it");
    return nullptr;
  }
  return import_for_cell(*cell, name, names == Py_None ? nullptr : names).release();
}

// In the place of _imp.create_builtin, which raises no audit event.
PyObject* create_builtin(PyObject* /*self*/, PyObject* spec) {
  Cell* cell = current_cell();
  const Ref name(PyObject_GetAttrString(spec, "name"));
  if (!name) return nullptr;
  if (cell == nullptr || !PyUnicode_Check(name.get())) {
    PyErr_SetString(PyExc_ImportError, "a built-in module has a name");
    return nullptr;
  }
  const std::string module = to_utf8(name.get());
  if (is_made_once(module)) {
    (void)refuse(*cell, cell->import_denied(), "import", "import:" + module, Verdict::Deny);
    return nullptr;
  }
  if (check_import(*cell, module) != 0) return nullptr;
  // With a name that is read once: a spec's own could change.
  const Ref plain = make_text(module);
  const Ref once(plain ? PyModule_NewObject(plain.get()) : nullptr);
  if (!once || PyObject_SetAttrString(once.get(), "name", plain.get()) != 0) return nullptr;
  return PyObject_CallFunctionObjArgs(cell->create_builtin.get(), once.get(), nullptr);
}

// In the place of _imp._fix_co_filename: whose code it is depends on the name that it was made
// with.
PyObject* keep_filename(PyObject* /*self*/, PyObject* /*arguments*/) { Py_RETURN_NONE; }

// The path as text or bytes, the directory as a number: everything that could run code has run.
struct Opening {
  Ref path;
  int flags = 0;
  int mode = 0777;
  int dir_fd = AT_FDCWD;
};

bool read_opening(PyObject* arguments, PyObject* named, Opening& opening) {
  static const char* words[] = {"path", "flags", "mode", "dir_fd", nullptr};
  PyObject* path = nullptr;
  PyObject* dir_fd = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "Oi|i$O:open", const_cast<char**>(words), &path,
                                  &opening.flags, &opening.mode, &dir_fd) == 0) {
    return false;
  }
  opening.path = Ref(PyOS_FSPath(path));
  if (!opening.path || dir_fd == Py_None) return static_cast<bool>(opening.path);
  const Ref number(PyNumber_Index(dir_fd));
  const long fd = number ? PyLong_AsLong(number.get()) : 0;
  if (PyErr_Occurred() != nullptr) return false;
  opening.dir_fd = static_cast<int>(std::clamp<long>(fd, AT_FDCWD, INT_MAX));
  return true;
}

// In the place of posix.open: its event does not tell what a path is relative to.
PyObject* open_file(PyObject* /*self*/, PyObject* arguments, PyObject* named) {
  Opening opening;
  if (!read_opening(arguments, named, opening)) return nullptr;
  Cell* cell = current_cell();
  if (cell == nullptr) return PyErr_SetString(PyExc_OSError, "the cell has ended"), nullptr;
  const Use use = use_of(opening.flags);
  if (check_path(*cell, "open", opening.path.get(), use, opening.dir_fd) != 0) return nullptr;
  const auto path = path_text(opening.path.get());
  if (!path || path->find('\0') != std::string::npos) {
    PyErr_SetString(PyExc_ValueError, "a path has no null byte");
    return nullptr;
  }
  while (true) {
    int fd = -1;
    int problem = 0;
    {
      const WithoutGil released;
      fd = ::openat(opening.dir_fd, path->c_str(), opening.flags | O_CLOEXEC, opening.mode);
      problem = errno;
    }
    if (fd >= 0) return PyLong_FromLong(fd);
    errno = problem;
    if (problem != EINTR) break;
    if (PyErr_CheckSignals() != 0) return nullptr;
  }
  return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, opening.path.get());
}

// In the place of sys.audit: events are raised by the code that acts, never by the cell.
PyObject* tell_event(PyObject* /*self*/, PyObject* arguments) {
  Cell* cell = current_cell();
  if (cell == nullptr) return PyErr_SetString(PyExc_RuntimeError, "the cell has ended"), nullptr;
  if (!is_library_code(*cell)) {
    (void)refuse(*cell, cell->policy_error(), "host", "sys.audit", Verdict::Deny);
    return nullptr;
  }
  return PyObject_CallObject(cell->sys_audit.get(), arguments);
}

PyMethodDef kCreateBuiltin = {"create_builtin", create_builtin, METH_O, nullptr};
PyMethodDef kKeepFilename = {"_fix_co_filename", keep_filename, METH_VARARGS, nullptr};
PyMethodDef kOpen = {"open", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(open_file)),
                     METH_VARARGS | METH_KEYWORDS, nullptr};

PyMethodDef kAudit = {"audit", tell_event, METH_VARARGS, nullptr};

PyMethodDef kImport = {"__import__",
                       reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(import_function)),
                       METH_VARARGS | METH_KEYWORDS, nullptr};

}  // namespace

// No names at all is the statement `import a.b`; an empty tuple asks for the module a.b itself.
Ref import_for_cell(Cell& cell, const std::string& name, PyObject* names) {
  const std::vector<std::string> wanted = texts_of(names);
  if (!is_granted(cell, name) && is_helper_call(name, names) && cell.grants().may_load(name)) {
    return load(name);
  }
  if (!is_granted(cell, name))
    return wanted.empty() ? deny(cell, name) : facade(cell, name, wanted);
  if (names == nullptr || (wanted.empty() && !PyTuple_Check(names))) return package_for(cell, name);
  Ref module = load(name);
  if (!module || !check_names(cell, module, name, names)) return Ref();
  return module;
}

bool replace_functions(Cell& cell) {
  if (is_worker && !replace_shared_functions()) return false;
  cell.create_builtin = replace_function("_imp", &kCreateBuiltin);
  cell.sys_audit = replace_function("sys", &kAudit);
  if (!cell.create_builtin || !cell.sys_audit || !replace_function("_imp", &kKeepFilename) ||
      !replace_function("posix", &kOpen)) {
    return false;
  }
  // Where `os` was loaded ahead, it has a name of its own for it.
  PyObject* modules = PySys_GetObject("modules");
  const bool has_os =
      modules != nullptr && PyDict_Check(modules) && PyDict_GetItemString(modules, "os") != nullptr;
  return !has_os || replace_function("os", &kOpen);
}

Ref make_builtins(Cell& cell) {
  const Ref module(PyImport_ImportModule("builtins"));
  if (!module) return Ref();
  Ref builtins(PyDict_Copy(PyModule_GetDict(module.get())));
  const Ref import(PyCFunction_NewEx(&kImport, nullptr, nullptr));
  if (!builtins || !import ||
      PyDict_SetItemString(builtins.get(), "__import__", import.get()) != 0) {
    return Ref();
  }
  for (const char* name : kCodeMakers) {
    if (is_granted(cell, "builtins")) break;
    if (PyDict_DelItemString(builtins.get(), name) != 0) PyErr_Clear();
  }
  return builtins;
}

}  // namespace glovebox::pyhost
