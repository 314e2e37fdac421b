#include "guest/python/host/guard.h"

#include <climits>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace glovebox::pyhost {

thread_local GuardState guard_state;
int channel_fd = 100;
bool is_worker = false;

namespace {

PyObject* argument(PyObject* arguments, Py_ssize_t index) {
  if (!PyTuple_Check(arguments) || index >= PyTuple_Size(arguments)) return Py_None;
  return PyTuple_GetItem(arguments, index);
}

std::optional<std::string> path_text(PyObject* path) {
  if (PyUnicode_Check(path)) {
    const SavedError saved;
    const Ref bytes(PyUnicode_EncodeFSDefault(path));
    if (!bytes) {
      PyErr_Clear();
      return to_utf8(path);
    }
    return std::string(PyBytes_AsString(bytes.get()),
                       static_cast<std::size_t>(PyBytes_Size(bytes.get())));
  }
  if (PyBytes_Check(path)) {
    return std::string(PyBytes_AsString(path), static_cast<std::size_t>(PyBytes_Size(path)));
  }
  return std::nullopt;
}

// Whether a path is plain and leads where it says: it exists, and no part of it is a link.
bool is_straight(const std::string& path) {
  if (!path.starts_with('/') || path.find("/.") != std::string::npos ||
      path.find("//") != std::string::npos || path.find('\0') != std::string::npos ||
      path.ends_with('/')) {
    return false;
  }
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;  // with O_NOFOLLOW a link at the end would do
  how.resolve = RESOLVE_NO_SYMLINKS;
  const long fd = ::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how));
  if (fd < 0) return false;
  ::close(static_cast<int>(fd));
  return true;
}

// Where a path leads: links are followed as far as the path exists.
std::string resolve(const std::string& path) {
  if (is_straight(path)) return path;
  std::string given = path.substr(0, path.find('\0'));
  std::string rest;
  while (true) {
    char buffer[PATH_MAX];
    if (::realpath(given.empty() ? "." : given.c_str(), buffer) != nullptr) {
      const std::string found = buffer;
      return rest.empty() ? found : (found == "/" ? "" : found) + rest;
    }
    const std::size_t slash = given.rfind('/');
    const std::string last = slash == std::string::npos ? given : given.substr(slash + 1);
    if (last == ".." || given.empty() || given == "/") return path;  // fits no rule
    if (!last.empty() && last != ".") rest = "/" + last + rest;
    given = slash == std::string::npos ? "." : slash == 0 ? "/" : given.substr(0, slash);
    if (rest.size() > PATH_MAX) return path;
  }
}

// The directory that a relative path begins at. Nothing when it cannot be told: descriptors of a
// worker belong to no cell, and one that is no directory leads nowhere.
std::optional<std::string> base_of(int dir_fd) {
  if (is_worker) return std::nullopt;
  char buffer[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(dir_fd);
  const ssize_t size = ::readlink(link.c_str(), buffer, sizeof(buffer));
  if (size <= 0 || size == sizeof(buffer) || buffer[0] != '/') return std::nullopt;
  return std::string(buffer, static_cast<std::size_t>(size));
}

// What leads past the guard: memory of processes, and their descriptors, whatever is granted.
bool is_inside_process(std::string_view path) {
  if (!path.starts_with("/proc/")) return false;
  for (std::size_t at = path.find('/', 6); at != std::string_view::npos;) {
    const std::size_t end = path.find('/', at + 1);
    const std::string_view part = path.substr(at + 1, end - at - 1);
    if (part == "mem" || part == "fd" || part == "map_files" || part == "root" || part == "cwd") {
      return true;
    }
    at = end;
  }
  return false;
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
  Py_ssize_t size = 0;
  const char* name =
      file && PyUnicode_Check(file.get()) ? PyUnicode_AsUTF8AndSize(file.get(), &size) : nullptr;
  if (name == nullptr) return Whose::Cell;
  const std::string_view text(name, static_cast<std::size_t>(size));
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

// The machinery's functions act for whoever called them. With nobody below, that is a granted
// import at the supervisor's wish, or nobody's.
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
  standing.is_granted_import = is_importing;
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

enum class Use : std::uint8_t { Read, Write };

int refuse_path(Cell& cell, const char* act, const std::string& what, Use use) {
  return refuse(cell, cell.policy_error(), use == Use::Read ? "read_path" : "write_path",
                std::string(act) + ":" + what, Verdict::Silent);
}

int check_path(Cell& cell, const char* act, PyObject* object, Use use, int dir_fd = AT_FDCWD) {
  if (PyLong_Check(object)) {
    const long fd = PyLong_AsLong(object);
    PyErr_Clear();
    if (fd < channel_fd || fd > channel_fd + 1) return 0;
    return refuse(cell, cell.policy_error(), "descriptor",
                  std::string(act) + ":" + std::to_string(fd), Verdict::Silent);
  }
  if (object == Py_None) {
    const Ref here = make_text(".");
    return check_path(cell, act, here.get(), use);
  }
  // Anything else is turned into a number or a path by its own code, each time anew.
  auto text = path_text(object);
  if (!text) return refuse_path(cell, act, "(neither text nor bytes nor a number)", use);
  if (dir_fd != AT_FDCWD && !text->starts_with('/')) {
    const auto base = base_of(dir_fd);
    if (!base) return refuse_path(cell, act, "(relative to a descriptor)" + *text, use);
    text = *base + "/" + *text;
  }
  const std::string path = resolve(*text);
  if (path == "/dev/null") return 0;
  const Grants& grants = cell.grants();
  if (is_inside_process(path)) return refuse_path(cell, act, path, use);
  if (use == Use::Read && grants.is_library(path) && is_library_work(cell)) return 0;
  const Verdict verdict = use == Use::Read ? grants.file_read(path) : grants.file_write(path);
  if (verdict == Verdict::Allow) return 0;
  return refuse(cell, cell.policy_error(), use == Use::Read ? "read_path" : "write_path",
                std::string(act) + ":" + path, verdict);
}

// Some events say which directory a path is relative to, as a number or -1.
int dir_fd_at(PyObject* arguments, Py_ssize_t index) {
  PyObject* given = argument(arguments, index);
  if (!PyLong_Check(given)) return AT_FDCWD;
  const long fd = PyLong_AsLong(given);
  PyErr_Clear();
  return fd < 0 || fd > INT_MAX ? AT_FDCWD : static_cast<int>(fd);
}

int on_open(Cell& cell, const char* /*event*/, PyObject* arguments) {
  if (guard_state.is_compiling) {
    PyErr_SetString(cell.policy_error(), "source comes over the channel");
    return -1;
  }
  PyObject* path = argument(arguments, 0);
  PyObject* flags = argument(arguments, 2);
  const long bits = PyLong_Check(flags) ? PyLong_AsLong(flags) : O_RDWR;
  const bool is_read = (bits & O_ACCMODE) == O_RDONLY && (bits & (O_CREAT | O_TRUNC)) == 0;
  const Use use = is_read ? Use::Read : Use::Write;
  // os.open() has no mode, and does not tell what its path is relative to: our own does.
  const auto dir_fd = std::exchange(guard_state.open_dir, std::nullopt);
  if (argument(arguments, 1) != Py_None || dir_fd) {
    return check_path(cell, "open", path, use, dir_fd.value_or(AT_FDCWD));
  }
  const auto text = path_text(path);
  if (text && !text->starts_with('/')) return refuse_path(cell, "open", *text, use);
  return check_path(cell, "open", path, use);
}

int on_read_path(Cell& cell, const char* event, PyObject* arguments) {
  return check_path(cell, event + 3, argument(arguments, 0), Use::Read);
}

int on_write_path(Cell& cell, const char* event, PyObject* arguments) {
  return check_path(cell, event + 3, argument(arguments, 0), Use::Write);
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
  return check_path(cell, "open", argument(arguments, 0), Use::Write);
}

// A program: by its path when the event says one.
int on_program(Cell& cell, const char* event, PyObject* arguments) {
  const auto path = path_text(argument(arguments, 0));
  const std::string program = path ? resolve(*path) : "";
  if (cell.grants().exec(program) == Verdict::Allow) return 0;
  return refuse(cell, cell.policy_error(), "exec_path",
                std::string(event) + (program.empty() ? "" : ":" + program), Verdict::Silent);
}

int on_process(Cell& cell, const char* event, PyObject* /*arguments*/) {
  if (cell.grants().has_exec()) return 0;  // the program it starts is asked about on its own
  return refuse(cell, cell.policy_error(), "exec_path", event, Verdict::Silent);
}

int on_socket(Cell& cell, const char* event, PyObject* arguments) {
  const Grants& grants = cell.grants();
  PyObject* family = argument(arguments, 1);
  const long number = PyLong_Check(family) ? PyLong_AsLong(family) : 0;
  PyErr_Clear();
  const bool is_unix = number == AF_UNIX;
  const bool is_net = number == AF_INET || number == AF_INET6;
  if ((is_net && grants.has_network()) || (is_unix && grants.has_unix())) return 0;
  return refuse(cell, cell.policy_error(), is_unix ? "connect_unix" : "connect_tcp", event,
                Verdict::Silent);
}

std::string address_text(PyObject* address) {
  if (!PyTuple_Check(address) || PyTuple_Size(address) < 2) return "";
  PyObject* host = PyTuple_GetItem(address, 0);
  const Ref port(PyObject_Str(PyTuple_GetItem(address, 1)));
  if (!port) PyErr_Clear();
  return (PyUnicode_Check(host) ? to_utf8(host) : "?") + ":" + (port ? to_utf8(port.get()) : "?");
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

// Allowed to whoever may import the module that the event is named after.
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
  return PyUnicode_Check(name) ? check_import(cell, to_utf8(name)) : 0;
}

int on_never(Cell& cell, const char* event, PyObject* /*arguments*/) {
  return refuse(cell, cell.policy_error(), "host", event, Verdict::Deny);
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
    {"sys._current_frames", on_insight},
    {"sys._current_exceptions", on_insight},
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

thread_local bool is_inside = false;

int audit(const char* event, PyObject* arguments, void* /*data*/) {
  Cell* cell = current_cell();
  if (cell == nullptr || is_inside) return 0;
  is_inside = true;  // what the guard itself looks up is no act of the cell's
  const auto found = handlers().find(event);
  const Handler handler = found != handlers().end() ? found->second : for_namespace(event);
  const int verdict = handler(*cell, event, arguments);
  is_inside = false;
  return verdict;
}

}  // namespace

bool is_library_code(const Cell& cell) {
  const bool was_inside = std::exchange(is_inside, true);
  const bool is_library = find_standing(cell).nearest != Whose::Cell;
  is_inside = was_inside;
  return is_library;
}

bool is_helper(std::string_view module) {
  static constexpr std::string_view kHelpers[] = {
      "_strptime", "_compat_pickle", "collections.abc", "copyreg",
      "io",        "numbers",        "unicodedata",     "warnings"};
  return std::ranges::find(kHelpers, module) != std::end(kHelpers);
}

int check_import(Cell& cell, const std::string& module) {
  const Grants& grants = cell.grants();
  const Verdict verdict = grants.import(module);
  if (verdict == Verdict::Allow) return 0;
  const bool was_inside = std::exchange(is_inside, true);
  const Standing standing = find_standing(cell);
  is_inside = was_inside;
  // By a statement, while it is itself loaded, or of its own package: everything. By name, and then
  // the name may be anybody's, what does no harm.
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
