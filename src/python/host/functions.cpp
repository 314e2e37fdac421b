// What the cell's own code can call: the guest's half of the seven operations.
#include "python/host/cell.h"

#include <cmath>

namespace glovebox::pyhost {
namespace {

// A function is called by the cell's own code, so there is a cell.
Cell* cell_or_error() {
  Cell* cell = current_cell();
  if (cell == nullptr) PyErr_SetString(PyExc_RuntimeError, "the cell has ended");
  return cell;
}

PyObject* none_if(bool is_good) {
  if (!is_good) return nullptr;
  Py_RETURN_NONE;
}

PyObject* post(PyObject* /*self*/, PyObject* value) {
  Cell* cell = cell_or_error();
  if (cell == nullptr) return nullptr;
  Encoder message;
  message.raw(R"({"ev":"post","value":)");
  if (!message.value(value)) return nullptr;
  message.raw("}");
  return none_if(cell->send(Word::Post, message));
}

PyObject* recv(PyObject* /*self*/, PyObject* arguments, PyObject* named) {
  static const char* names[] = {"timeout", nullptr};
  PyObject* timeout = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "|O:recv", const_cast<char**>(names),
                                  &timeout) == 0) {
    return nullptr;
  }
  std::optional<std::chrono::milliseconds> patience;
  if (timeout != Py_None) {
    const double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred() != nullptr) return nullptr;
    if (!std::isfinite(seconds) || seconds > 1e9) {
      PyErr_SetString(PyExc_ValueError, "a timeout is a number of seconds");
      return nullptr;
    }
    patience = std::chrono::milliseconds(std::llround(std::max(0.0, seconds) * 1000));
  }
  Cell* cell = cell_or_error();
  if (cell == nullptr) return nullptr;
  Frame frame;
  const Waited waited = cell->await_post(patience, frame);
  if (waited != Waited::Ready) return explain_wait(waited), nullptr;
  const Ref message = decode(frame.payload, frame.form);
  if (!message) return nullptr;
  PyObject* value = PyDict_GetItemString(message.get(), "value");
  return Ref::borrow(value == nullptr ? Py_None : value).release();
}

PyObject* log(PyObject* /*self*/, PyObject* arguments, PyObject* named) {
  static const char* names[] = {"level", "message", nullptr};
  PyObject* level = nullptr;
  PyObject* text = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "U|O:log", const_cast<char**>(names), &level,
                                  &text) == 0) {
    return nullptr;
  }
  Cell* cell = cell_or_error();
  if (cell == nullptr) return nullptr;
  const Ref info = make_text("info");
  if (text == nullptr) text = std::exchange(level, info.get());
  const Ref words(PyObject_Str(text));
  if (!words) return nullptr;
  Encoder message;
  message.raw(R"({"ev":"log","level":)");
  message.text(to_utf8(level).substr(0, 64));
  message.raw(R"(,"message":)");
  message.text(to_utf8(words.get()));
  message.raw("}");
  return none_if(cell->send(Word::Event, message));
}

PyObject* metric(PyObject* /*self*/, PyObject* arguments, PyObject* named) {
  static const char* names[] = {"name", "value", "labels", nullptr};
  PyObject* name = nullptr;
  double value = 0;
  PyObject* labels = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "Ud|O:metric", const_cast<char**>(names), &name,
                                  &value, &labels) == 0) {
    return nullptr;
  }
  Cell* cell = cell_or_error();
  const Ref number(PyFloat_FromDouble(value));
  if (cell == nullptr || !number) return nullptr;
  Encoder message;
  message.raw(R"({"ev":"metric","name":)");
  message.text(to_utf8(name).substr(0, 256));
  message.raw(R"(,"value":)");
  if (!message.value(number.get())) return nullptr;
  message.raw(R"(,"labels":)");
  const Ref none(PyDict_New());
  if (!none || !message.value(labels == Py_None ? none.get() : labels)) return nullptr;
  message.raw("}");
  return none_if(cell->send(Word::Event, message));
}

// The answer of the supervisor: a value, or an error that becomes an exception here.
PyObject* take_reply(const Cell& cell, PyObject* reply) {
  if (PyObject* value = PyDict_GetItemString(reply, "value")) return Ref::borrow(value).release();
  PyObject* error = PyDict_GetItemString(reply, "error");
  if (error == nullptr || !PyDict_Check(error)) Py_RETURN_NONE;
  const std::string type = text_at(error, "type");
  PyObject* kind = type == "PolicyError"         ? cell.policy_error()
                   : type == "TimeoutError"      ? PyExc_TimeoutError
                   : type == "FileNotFoundError" ? PyExc_FileNotFoundError
                   : type == "OSError"           ? PyExc_OSError
                   : type == "ValueError"        ? PyExc_ValueError
                                                 : PyExc_RuntimeError;
  const Ref message = make_text(text_at(error, "message"));
  PyErr_SetObject(kind, message.get());
  return nullptr;
}

PyObject* request(PyObject* /*self*/, PyObject* arguments, PyObject* named) {
  static const char* names[] = {"capability", "action", "payload", nullptr};
  PyObject* capability = nullptr;
  PyObject* action = nullptr;
  PyObject* payload = Py_None;
  if (PyArg_ParseTupleAndKeywords(arguments, named, "UU|O:request", const_cast<char**>(names),
                                  &capability, &action, &payload) == 0) {
    return nullptr;
  }
  Cell* cell = cell_or_error();
  if (cell == nullptr) return nullptr;
  const std::uint64_t id = cell->next_request();
  Encoder message;
  message.raw(R"({"ev":"request","id":)");
  message.number(static_cast<long long>(id));
  message.raw(R"(,"capability":)");
  message.text(to_utf8(capability).substr(0, 256));
  message.raw(R"(,"action":)");
  message.text(to_utf8(action).substr(0, 256));
  message.raw(R"(,"payload":)");
  if (!message.value(payload)) return nullptr;
  message.raw("}");
  if (message.head().size() > python::kMaxRequestJson) {
    PyErr_SetString(PyExc_ValueError,
                    "a request of more than 1 MiB beside its bytes cannot cross: give a large text "
                    "as bytes");
    return nullptr;
  }
  if (!cell->send(Word::Request, message)) return nullptr;
  Ref reply;
  const Waited waited = cell->await_reply(id, reply);
  if (waited != Waited::Ready) return explain_wait(waited), nullptr;
  if (!reply) return nullptr;  // it came, and does not fit in here
  return take_reply(*cell, reply.get());
}

template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef kFunctions[] = {
    {"post", as_method(post), METH_O, "post(value): sends a value out"},
    {"recv", as_method(recv), METH_VARARGS | METH_KEYWORDS,
     "recv(timeout=None): the next value that was sent in"},
    {"log", as_method(log), METH_VARARGS | METH_KEYWORDS, "log(level, message)"},
    {"metric", as_method(metric), METH_VARARGS | METH_KEYWORDS, "metric(name, value, labels=None)"},
    {"request", as_method(request), METH_VARARGS | METH_KEYWORDS,
     "request(capability, action, payload=None): asks for something that is done outside"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_functions(Cell& cell, PyObject* globals) {
  for (PyMethodDef* each = kFunctions; each->ml_name != nullptr; ++each) {
    const Ref function(PyCFunction_NewEx(each, nullptr, nullptr));
    if (!function || PyDict_SetItemString(globals, each->ml_name, function.get()) != 0) {
      return false;
    }
  }
  const auto& names = cell.grants().capabilities();
  const Ref caps(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
  if (!caps) return false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (PyTuple_SetItem(caps.get(), static_cast<Py_ssize_t>(i), make_text(names[i]).release()) !=
        0) {
      return false;
    }
  }
  return PyDict_SetItemString(globals, "caps", caps.get()) == 0;
}

}  // namespace glovebox::pyhost
