// An exception as the channel tells it. Text of the cell's own making is cut, and whatever its code
// does while it is asked for that text is the cell's own doing.
#include "python/host/cell.h"

#include <cerrno>

namespace glovebox::pyhost {
namespace {

constexpr std::size_t kMostMessage = std::size_t{16} << 10;
constexpr int kMostFrames = 40;

std::string cut(const std::string& text, std::size_t most) {
  return text.size() > most ? python::cut_text(text, most) + "..." : text;
}

Ref attribute(PyObject* object, const char* name) {
  if (object == nullptr) return Ref();
  Ref found(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return found;
}

std::string text_attribute(PyObject* object, const char* name) {
  const Ref found = attribute(object, name);
  return found && PyUnicode_Check(found.get()) ? to_utf8(found.get()) : "?";
}

std::string line_of(const std::map<std::string, std::string>& sources, const std::string& file,
                    long line) {
  const auto found = sources.find(file);
  if (found == sources.end() || line < 1) return "";
  std::size_t start = 0;
  for (long i = 1; i < line; ++i) {
    start = found->second.find('\n', start);
    if (start == std::string::npos) return "";
    ++start;
  }
  std::string text = found->second.substr(start, found->second.find('\n', start) - start);
  text.erase(0, text.find_first_not_of(" \t"));
  return "    " + text + "\n";
}

// Of the function that one step of a traceback is in.
Ref code_of(PyObject* step) {
  const WithoutCollector still;
  guard_state.may_read_trace = true;
  const Ref frame = attribute(step, "tb_frame");
  guard_state.may_read_trace = false;
  if (!frame) return Ref();
  return Ref(
      reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame.get()))));
}

std::string trace_text(PyObject* trace, const std::map<std::string, std::string>& sources) {
  std::string text;
  Ref step = Ref::borrow(trace);
  for (int i = 0; i < kMostFrames && step && step.get() != Py_None; ++i) {
    const Ref code = code_of(step.get());
    const Ref number = attribute(step.get(), "tb_lineno");
    Ref next = attribute(step.get(), "tb_next");
    const std::string file = text_attribute(code.get(), "co_filename");
    const long line = number ? PyLong_AsLong(number.get()) : 0;
    PyErr_Clear();
    text += "  File \"" + file + "\", line " + std::to_string(line) + ", in " +
            text_attribute(code.get(), "co_name") + "\n" + line_of(sources, file, line);
    step = std::move(next);
  }
  return text;
}

std::string message_of(PyObject* error) {
  const Ref text(error == nullptr ? nullptr : PyObject_Str(error));
  if (!text) PyErr_Clear();
  return text ? cut(to_utf8(text.get()), kMostMessage) : "";
}

long errno_of(PyObject* error) {
  const Ref number = attribute(error, "errno");
  const long code = number && PyLong_Check(number.get()) ? PyLong_AsLong(number.get()) : 0;
  PyErr_Clear();
  return code;
}

bool is_a(PyObject* type, PyObject* kind) {
  return type != nullptr && kind != nullptr && PyErr_GivenExceptionMatches(type, kind) != 0;
}

}  // namespace

void Cell::describe_error(Encoder& out, PyObject* type, PyObject* error, PyObject* trace) {
  const bool is_cancelled = is_a(type, PyExc_KeyboardInterrupt) && is_cancelled_;
  const bool is_memory = is_a(type, PyExc_MemoryError);
  const bool is_files = is_a(type, PyExc_OSError) && errno_of(error) == EMFILE;
  const char* kind = is_cancelled                                                ? "cancelled"
                     : is_memory || is_files                                     ? "budget"
                     : is_a(type, policy_error()) || is_a(type, import_denied()) ? "policy"
                                                                                 : "guest";
  const std::string name = type == nullptr ? "Exception" : text_attribute(type, "__name__");
  const std::string message = message_of(error);
  out.raw(R"({"type":)");
  out.text(cut(name, 256));
  out.raw(R"(,"message":)");
  out.text(message);
  out.raw(R"(,"traceback":)");
  out.text(cut("Traceback (most recent call last):\n" + trace_text(trace, sources_) + name + ": " +
                   message + "\n",
               2 * kMostMessage));
  out.raw(R"(,"kind":")");
  out.raw(kind);
  out.raw("\"");
  if (is_memory) out.raw(R"(,"reason":"memory")");
  if (is_files) out.raw(R"(,"reason":"open_files")");
  out.raw("}");
}

}  // namespace glovebox::pyhost
