#include "python/host/guard.h"

#include "python/host/guarded_paths.h"
#include "python/host/shared_state.h"

#include <climits>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fcntl.h>
#include <sys/socket.h>

namespace glovebox::pyhost {

thread_local GuardState guard_state;
int channel_fd = 100;
bool is_worker = false;

namespace {

PyObject* argument(PyObject* arguments, Py_ssize_t index) {
  if (!PyTuple_Check(arguments) || index >= PyTuple_Size(arguments)) return Py_None;
  return PyTuple_GetItem(arguments, index);
}

bool is_import_machinery(std::string_view file) {
  return file.starts_with("<frozen importlib") || file.ends_with("/importlib/__init__.py") ||
         file.ends_with("/importlib/_bootstrap.py") ||
         file.ends_with("/importlib/_bootstrap_external.py");
}

enum class Whose : std::uint8_t { Cell, Library, Machinery };

// Who acts at this moment, read off the frames of the thread.
struct Standing {
  Whose nearest = Whose::Cell;     // the innermost frame
  Whose caller = Whose::Cell;      // the innermost that is not the import machinery's
  bool is_statement = false;       // the caller is at an `import` of its own
  bool is_granted_import = false;  // everything above the code that asked for an import is library
  Ref code;                        // of the innermost frame

  // What a library does for itself, or a granted import does. Not every way into the import
  // machinery is an event: what it then reads and executes is asked about as well.
  bool is_library_work() const { return is_granted_import || caller == Whose::Library; }
};

Ref code_of(const Ref& frame) {
  return Ref(
      reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame.get()))));
}

Whose owner_of(const Cell& cell, const Ref& code) {
  const Ref file(PyObject_GetAttrString(code.get(), "co_filename"));
  if (!file || !PyUnicode_Check(file.get())) return Whose::Cell;
  const std::string text = to_utf8(file.get());
  const bool is_library = text.starts_with("<frozen ") || cell.grants().is_library(text);
  if (!is_library) return Whose::Cell;
  return is_import_machinery(text) ? Whose::Machinery : Whose::Library;
}

int import_opcode = -1;  // of this interpreter's bytecode

bool is_at_import(const Ref& frame, const Ref& code) {
  const Ref at(PyObject_GetAttrString(frame.get(), "f_lasti"));
  const Ref bytes(PyObject_GetAttrString(code.get(), "co_code"));
  if (!at || !bytes || !PyLong_Check(at.get()) || !PyBytes_Check(bytes.get())) return false;
  const Py_ssize_t offset = PyLong_AsSsize_t(at.get());
  if (offset < 0 || offset >= PyBytes_Size(bytes.get())) return false;
  return static_cast<unsigned char>(PyBytes_AsString(bytes.get())[offset]) == import_opcode;
}

// The import machinery acts for its caller. With no caller below it, that is a granted import at
// the supervisor's wish, or none.
Standing find_standing(const Cell& cell) {
  const SavedError saved;
  Standing standing;
  Ref frame = Ref::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  bool has_caller = false;
  bool is_first = true;
  const bool is_importing = guard_state.import_depth > 0;
  while (frame && frame.get() != Py_None) {
    if (is_importing && frame.get() == guard_state.import_frame) break;
    Ref code = code_of(frame);
    const Whose whose = owner_of(cell, code);
    if (!has_caller && whose != Whose::Machinery) {
      has_caller = true;
      standing.caller = whose;
      standing.is_statement = whose == Whose::Library && is_at_import(frame, code);
    }
    if (std::exchange(is_first, false)) {
      standing.nearest = whose;
      standing.code = std::move(code);
    }
    if (whose == Whose::Cell || (has_caller && !is_importing)) {
      PyErr_Clear();
      return standing;
    }
    frame = Ref(PyObject_GetAttrString(frame.get(), "f_back"));
  }
  // Without memory there are no frames to be seen, and nothing is known of who asks.
  const bool is_end = frame && (frame.get() == Py_None || frame.get() == guard_state.import_frame);
  standing.is_granted_import = is_importing && is_end && !is_first;
  PyErr_Clear();
  return standing;
}

bool is_library_work(const Cell& cell) { return find_standing(cell).is_library_work(); }

bool names_maker(const Ref& code, std::string_view event) {
  const Ref names(PyObject_GetAttrString(code.get(), "co_names"));
  const bool is_new = event == "code.__new__";
  const bool is_function = event == "function.__new__";
  const bool is_marshal = event.starts_with("marshal.");
  for (Py_ssize_t i = 0; names && PyTuple_Check(names.get()) && i < PyTuple_Size(names.get());
       ++i) {
    const std::string name = to_utf8(PyTuple_GetItem(names.get(), i));
    if (is_new        ? name == "replace" || name == "CodeType"
        : is_function ? name == "FunctionType"
        : is_marshal  ? name == "loads" || name == "load"
                      : name == "exec" || name == "eval" || name == "compile") {
      return true;
    }
  }
  PyErr_Clear();
  return false;
}

int refuse_path(Cell& cell, const char* act, const std::string& what, Use use) {
  return refuse(cell, cell.policy_error(), use == Use::Read ? "read_path" : "write_path",
                std::string(act) + ":" + what, Verdict::Silent);
}

// Where the kernel would be led, in an event or a call of ours.
int check_text(Cell& cell, const char* act, std::string text, Use use, int dir_fd) {
  if (dir_fd != AT_FDCWD && !text.starts_with('/')) {
    const auto base = is_worker ? std::nullopt : base_of(dir_fd);  // no cell has descriptors there
    if (!base) return refuse_path(cell, act, "(relative to a descriptor)" + text, use);
    text = *base + "/" + text;
  }
  const auto path = resolve(text);
  if (!path) return refuse_path(cell, act, text, use);
  if (*path == "/dev/null") return 0;
  const Grants& grants = cell.grants();
  if (is_inside_process(*path)) return refuse_path(cell, act, *path, use);
  if (use == Use::Read && grants.is_library(*path) && is_library_work(cell)) return 0;
  const Verdict verdict = use == Use::Read ? grants.file_read(*path) : grants.file_write(*path);
  if (verdict == Verdict::Allow) return 0;
  return refuse(cell, cell.policy_error(), use == Use::Read ? "read_path" : "write_path",
                std::string(act) + ":" + *path, verdict);
}

// A number of the interpreter's own type, or what is given otherwise.
long number_of(PyObject* object, long otherwise) {
  if (!PyLong_CheckExact(object)) return otherwise;
  const long number = PyLong_AsLong(object);
  if (PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  return otherwise;
}

int check_descriptor(Cell& cell, const char* act, PyObject* object) {
  const long fd = number_of(object, channel_fd);
  if (fd < channel_fd || fd > channel_fd + 1) return 0;
  return refuse(cell, cell.policy_error(), "descriptor",
                std::string(act) + ":" + std::to_string(fd), Verdict::Silent);
}

int check_here(Cell& cell, const char* act, PyObject* path, Use use) {
  return check_path(cell, act, path, use, AT_FDCWD);
}

// Some events say which directory a path is relative to, as a number or -1.
int dir_fd_at(PyObject* arguments, Py_ssize_t index) {
  const long fd = number_of(argument(arguments, index), -1);
  return fd < 0 || fd > INT_MAX ? AT_FDCWD : static_cast<int>(fd);
}

int on_open(Cell& cell, const char* /*event*/, PyObject* arguments) {
  if (guard_state.is_compiling) {
    PyErr_SetString(cell.policy_error(), "source comes over the channel");
    return -1;
  }
  PyObject* path = argument(arguments, 0);
  const Use use = use_of(number_of(argument(arguments, 2), O_RDWR));
  if (argument(arguments, 1) != Py_None) return check_here(cell, "open", path, use);
  // The interpreter's own os.open() has no mode, and does not tell what its path is relative to.
  const auto text = path_text(path);
  if (text && !text->starts_with('/')) return refuse_path(cell, "open", *text, use);
  return check_here(cell, "open", path, use);
}

int on_read_path(Cell& cell, const char* event, PyObject* arguments) {
  return check_here(cell, event + 3, argument(arguments, 0), Use::Read);
}

int on_write_path(Cell& cell, const char* event, PyObject* arguments) {
  return check_here(cell, event + 3, argument(arguments, 0), Use::Write);
}

template <Py_ssize_t kDirFd>
int on_write_below(Cell& cell, const char* event, PyObject* arguments) {
  return check_path(cell, event + 3, argument(arguments, 0), Use::Write,
                    dir_fd_at(arguments, kDirFd));
}

int on_two_paths(Cell& cell, const char* event, PyObject* arguments) {
  const int first =
      check_path(cell, event + 3, argument(arguments, 0), Use::Write, dir_fd_at(arguments, 2));
  return first != 0 ? first
                    : check_path(cell, event + 3, argument(arguments, 1), Use::Write,
                                 dir_fd_at(arguments, 3));
}

int on_symlink(Cell& cell, const char* event, PyObject* arguments) {
  return check_path(cell, event + 3, argument(arguments, 1), Use::Write, dir_fd_at(arguments, 2));
}

int on_database(Cell& cell, const char* /*event*/, PyObject* arguments) {
  const auto path = path_text(argument(arguments, 0));
  if (path && (*path == ":memory:" || path->empty())) return 0;
  return check_here(cell, "open", argument(arguments, 0), Use::Write);
}

// A program: by its path when the event says one.
int on_program(Cell& cell, const char* event, PyObject* arguments) {
  const auto path = path_text(argument(arguments, 0));
  const auto program = path ? resolve(*path) : std::nullopt;
  if (program && cell.grants().exec(*program) == Verdict::Allow) return 0;
  return refuse(cell, cell.policy_error(), "exec_path",
                std::string(event) + (program ? ":" + *program : ""), Verdict::Silent);
}

int on_process(Cell& cell, const char* event, PyObject* /*arguments*/) {
  if (cell.grants().has_exec()) return 0;  // the program it starts is asked about on its own
  return refuse(cell, cell.policy_error(), "exec_path", event, Verdict::Silent);
}

int on_socket(Cell& cell, const char* event, PyObject* arguments) {
  const Grants& grants = cell.grants();
  const long family = number_of(argument(arguments, 1), AF_UNSPEC);
  const bool is_unix = family == AF_UNIX;
  const bool is_net = family == AF_INET || family == AF_INET6;
  if ((is_net && grants.has_network()) || (is_unix && grants.has_unix())) return 0;
  return refuse(cell, cell.policy_error(), is_unix ? "connect_unix" : "connect_tcp", event,
                Verdict::Silent);
}

std::string address_text(PyObject* address) {
  if (!PyTuple_Check(address) || PyTuple_Size(address) < 2) return "";
  PyObject* host = PyTuple_GetItem(address, 0);
  const long port = number_of(PyTuple_GetItem(address, 1), -1);
  return (PyUnicode_Check(host) ? to_utf8(host) : "?") + ":" +
         (port < 0 ? "?" : std::to_string(port));
}

// Which address may be connected to is the broker's question, outside.
int on_network(Cell& cell, const char* event, PyObject* arguments) {
  if (cell.grants().has_network() || cell.grants().has_unix()) return 0;
  return refuse(cell, cell.policy_error(), "connect_tcp",
                std::string(event) + ":" + address_text(argument(arguments, 1)), Verdict::Silent);
}

int needs_module(Cell& cell, const char* event, const char* module) {
  const Verdict verdict = cell.grants().import(module);
  if (verdict == Verdict::Allow) return 0;
  return refuse(cell, cell.policy_error(), "import", event, verdict);
}

// Allowed to code that may import the module that the event is named after.
int on_module(Cell& cell, const char* event, PyObject* /*arguments*/) {
  const std::string_view name(event);
  return needs_module(cell, event, std::string(name.substr(0, name.find('.'))).c_str());
}

// Libraries do these things for good reasons; a cell's own code needs the module's grant.
int on_insight(Cell& cell, const char* event, PyObject* arguments) {
  if (guard_state.may_read_trace || is_library_code(cell)) return 0;
  return on_module(cell, event, arguments);
}

// Code is made where the function that makes it is named: what was handed to a library and is
// called by it has no name there.
int on_code(Cell& cell, const char* event, PyObject* /*arguments*/) {
  if (guard_state.may_compile) {
    guard_state.may_compile = false;
    return 0;
  }
  const Standing standing = find_standing(cell);
  if (standing.nearest == Whose::Machinery
          ? standing.is_library_work()
          : standing.nearest == Whose::Library && names_maker(standing.code, event)) {
    return 0;
  }
  return needs_module(cell, event, "builtins");
}

int on_import(Cell& cell, const char* /*event*/, PyObject* arguments) {
  PyObject* name = argument(arguments, 0);
  return check_import(cell, PyUnicode_CheckExact(name) ? to_utf8(name) : "(no text)");
}

int on_never(Cell& cell, const char* event, PyObject* /*arguments*/) {
  return refuse(cell, cell.policy_error(), "host", event, Verdict::Deny);
}

// Frames of all threads are those of all cells.
int on_frames(Cell& cell, const char* event, PyObject* arguments) {
  return is_worker ? on_never(cell, event, arguments) : on_insight(cell, event, arguments);
}

// A limit is the process's.
int on_limit(Cell& cell, const char* event, PyObject* arguments) {
  return is_worker ? on_never(cell, event, arguments) : on_module(cell, event, arguments);
}

int on_harmless(Cell& /*cell*/, const char* /*event*/, PyObject* /*arguments*/) { return 0; }

using Handler = int (*)(Cell&, const char*, PyObject*);

struct Event {
  std::string_view name;
  Handler handler;
};

constexpr Event kEvents[] = {
    {"open", on_open},
    {"import", on_import},
    {"compile", on_code},
    {"exec", on_code},
    {"code.__new__", on_code},
    {"function.__new__", on_code},
    {"marshal.loads", on_code},
    {"marshal.load", on_code},
    {"marshal.dumps", on_harmless},
    {"object.__getattr__", on_insight},
    {"object.__setattr__", on_insight},
    {"object.__delattr__", on_insight},
    {"sys._getframe", on_insight},
    {"sys._getframemodulename", on_insight},
    {"sys._current_frames", on_frames},
    {"sys._current_exceptions", on_frames},
    {"resource.setrlimit", on_limit},
    {"resource.prlimit", on_limit},
    {"sys.settrace", on_insight},
    {"sys.setprofile", on_insight},
    {"sys.set_asyncgen_hooks_firstiter", on_harmless},
    {"sys.set_asyncgen_hooks_finalizer", on_harmless},
    {"sys.excepthook", on_harmless},
    {"sys.unraisablehook", on_harmless},
    {"sys.addaudithook", on_never},
    {"os.listdir", on_read_path},
    {"os.scandir", on_read_path},
    {"os.walk", on_harmless},
    {"os.fwalk", on_harmless},
    {"os.chdir", on_read_path},
    {"os.getxattr", on_read_path},
    {"os.listxattr", on_read_path},
    {"os.mkdir", on_write_below<2>},
    {"os.remove", on_write_below<1>},
    {"os.rmdir", on_write_below<1>},
    {"os.truncate", on_write_path},
    {"os.chmod", on_write_below<2>},
    {"os.chown", on_write_below<3>},
    {"os.utime", on_write_below<3>},
    {"os.setxattr", on_write_path},
    {"os.removexattr", on_write_path},
    {"os.lockf", on_harmless},
    {"os.rename", on_two_paths},
    {"os.link", on_two_paths},
    {"os.symlink", on_symlink},
    {"os.putenv", on_harmless},
    {"os.unsetenv", on_harmless},
    {"os.listdrives", on_harmless},
    {"os.exec", on_program},
    {"os.posix_spawn", on_program},
    {"os.spawn", on_program},
    {"subprocess.Popen", on_program},
    {"os.system", on_process},
    {"os.fork", on_process},
    {"os.forkpty", on_process},
    {"pty.spawn", on_process},
    {"socket.__new__", on_socket},
    {"socket.gethostname", on_harmless},
    {"sqlite3.connect", on_database},
    {"sqlite3.connect/handle", on_harmless},
};

const std::unordered_map<std::string_view, Handler>& handlers() {
  static const std::unordered_map<std::string_view, Handler> kHandlers = [] {
    std::unordered_map<std::string_view, Handler> map;
    for (const Event& event : kEvents) map.emplace(event.name, event.handler);
    return map;
  }();
  return kHandlers;
}

// Everything of a namespace that has no handler of its own.
Handler for_namespace(std::string_view event) {
  const std::string_view space = event.substr(0, event.find('.'));
  if (space == "socket") return on_network;
  if (space == "ctypes" || space == "gc" || space == "mmap" || space == "fcntl" ||
      space == "resource" || space == "signal" || space == "syslog") {
    return on_module;
  }
  if (space == "os" || space == "sys" || space == "cpython" || space == "code" ||
      space == "function" || space == "marshal" || space == "object" || space == "subprocess" ||
      space == "sqlite3" || space == "pty" || space == "monitoring") {
    return on_never;
  }
  return on_harmless;
}

// Events within events. What the guard looks at tells of none; code that runs in between can.
constexpr int kMostNested = 16;
thread_local int nested = 0;

int refuse_plainly(const char* why) {
  PyErr_SetString(PyExc_PermissionError, why);
  return -1;
}

int audit(const char* event, PyObject* arguments, void* /*data*/) noexcept {
  const Tenant tenant = current_tenant();
  if (tenant.is_host) return 0;
  if (tenant.cell == nullptr) return refuse_plainly("the cell has ended");
  if (nested >= kMostNested) return refuse_plainly("too many things are tried within one another");
  ++nested;
  const auto found = handlers().find(event);
  const Handler handler = found != handlers().end() ? found->second : for_namespace(event);
  const int verdict = handler(*tenant.cell, event, arguments);
  --nested;
  return verdict;
}

}  // namespace

Use use_of(long flags) {
  const bool is_read = (flags & O_ACCMODE) == O_RDONLY && (flags & (O_CREAT | O_TRUNC)) == 0;
  return is_read ? Use::Read : Use::Write;
}

int check_path(Cell& cell, const char* act, PyObject* path, Use use, int dir_fd) {
  if (PyLong_CheckExact(path)) return check_descriptor(cell, act, path);
  if (path == Py_None) return check_text(cell, act, ".", use, AT_FDCWD);
  // Anything else is turned into a number or a path by its own code, each time anew.
  auto text = path_text(path);
  if (!text) return refuse_path(cell, act, "(neither text nor bytes nor a number)", use);
  return check_text(cell, act, *std::move(text), use, dir_fd);
}

bool is_library_code(const Cell& cell) { return find_standing(cell).nearest != Whose::Cell; }

bool is_helper(std::string_view module) {
  static constexpr std::string_view kHelpers[] = {
      "_strptime", "_compat_pickle", "collections.abc", "copyreg",
      "io",        "numbers",        "unicodedata",     "warnings"};
  return std::ranges::find(kHelpers, module) != std::end(kHelpers);
}

int check_import(Cell& cell, const std::string& module) {
  const Grants& grants = cell.grants();
  if (is_worker && is_kept_from_cells(module)) {
    return refuse(cell, cell.import_denied(), "import", "import:" + module, Verdict::Deny);
  }
  const Verdict verdict = grants.import(module);
  if (verdict == Verdict::Allow) return 0;
  const Standing standing = find_standing(cell);
  // By a statement, while it is itself loaded, or of its own package: everything. By name, and then
  // any code may have chosen the name, what does no harm.
  const bool is_own = standing.is_granted_import || standing.is_statement ||
                      (standing.caller == Whose::Library && grants.shares_package(module));
  const bool is_harmless = is_helper(module) || module.starts_with("encodings.");
  if ((is_own || is_harmless) && grants.may_load(module)) return 0;
  return refuse(cell, cell.import_denied(), "import", "import:" + module, verdict);
}

int refuse(Cell& cell, PyObject* error, const std::string& capability, const std::string& action,
           Verdict verdict) {
  const std::string rule =
      verdict == Verdict::Deny ? "runtime_policy:deny_" + capability : "authority:" + capability;
  cell.tell_denial(capability, action, rule);
  const std::string text = action + " is not allowed: " +
                           (verdict == Verdict::Deny ? "denied" : "no grant of " + capability);
  const Ref message = make_text(text);
  PyErr_SetObject(error, message.get());
  return -1;
}

bool install_guard() {
  if (!has_utf8_paths()) return false;
  const Ref opcode(PyImport_ImportModule("opcode"));
  const Ref numbers(opcode ? PyObject_GetAttrString(opcode.get(), "opmap") : nullptr);
  PyObject* found = numbers && PyDict_Check(numbers.get())
                        ? PyDict_GetItemString(numbers.get(), "IMPORT_NAME")
                        : nullptr;
  if (found == nullptr || !PyLong_Check(found)) return false;
  import_opcode = static_cast<int>(PyLong_AsLong(found));
  return PySys_AddAuditHook(audit, nullptr) == 0;
}

}  // namespace glovebox::pyhost
