// sys.stdout and sys.stderr of a cell: text that becomes events of the channel.
//
// A stream has no state that its code could reach but which of the two it is; what was written and
// not sent yet is kept by line, and goes out with the next newline, flush or end of an operation.
#include "python/host/cell.h"

#include <array>

namespace glovebox::pyhost {
namespace {

constexpr std::size_t kMostPending = 4096;
constexpr std::size_t kMostEvent = std::size_t{256} << 10;

struct Stream {
  PyObject_HEAD;
  int number;  // 1 or 2
  std::string* pending;
};

Stream* as_stream(PyObject* self) { return reinterpret_cast<Stream*>(self); }

bool send_pending(Stream* stream) {
  Cell* cell = current_cell();
  if (stream->pending->empty() || cell == nullptr) return true;
  const std::string text = std::exchange(*stream->pending, {});
  for (std::size_t at = 0; at < text.size();) {
    const std::string piece = python::cut_text(std::string_view(text).substr(at), kMostEvent);
    Encoder message;
    message.raw(stream->number == 1 ? R"({"ev":"output","stream":"stdout","text":)"
                                    : R"({"ev":"output","stream":"stderr","text":)");
    message.text(piece);
    message.raw("}");
    if (!cell->send(Word::Event, message)) return false;
    at += piece.size();
  }
  return true;
}

PyObject* write(PyObject* self, PyObject* text) {
  if (!PyUnicode_Check(text)) {
    PyErr_SetString(PyExc_TypeError, "write() takes a str");
    return nullptr;
  }
  Stream* stream = as_stream(self);
  const std::string words = to_utf8(text);
  const bool is_line = words.find('\n') != std::string::npos;
  *stream->pending += words;
  if ((is_line || stream->pending->size() > kMostPending) && !send_pending(stream)) return nullptr;
  return PyLong_FromSsize_t(PyUnicode_GetLength(text));
}

PyObject* writelines(PyObject* self, PyObject* lines) {
  const Ref iterator(PyObject_GetIter(lines));
  if (!iterator) return nullptr;
  while (const Ref line{PyIter_Next(iterator.get())}) {
    const Ref written(write(self, line.get()));
    if (!written) return nullptr;
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  Py_RETURN_NONE;
}

PyObject* flush(PyObject* self, PyObject* /*unused*/) {
  if (!send_pending(as_stream(self))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* yes(PyObject* /*self*/, PyObject* /*unused*/) { Py_RETURN_TRUE; }
PyObject* no(PyObject* /*self*/, PyObject* /*unused*/) { Py_RETURN_FALSE; }

PyObject* get_encoding(PyObject* /*self*/, void* /*unused*/) {
  return PyUnicode_FromString("utf-8");
}
PyObject* get_errors(PyObject* /*self*/, void* /*unused*/) {
  return PyUnicode_FromString("replace");
}

void destroy(PyObject* self) {
  delete as_stream(self)->pending;
  PyTypeObject* type = Py_TYPE(self);
  auto* const free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyMethodDef kMethods[] = {
    {"write", write, METH_O, nullptr},       {"writelines", writelines, METH_O, nullptr},
    {"flush", flush, METH_NOARGS, nullptr},  {"isatty", no, METH_NOARGS, nullptr},
    {"readable", no, METH_NOARGS, nullptr},  {"seekable", no, METH_NOARGS, nullptr},
    {"writable", yes, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyGetSetDef kAttributes[] = {{"encoding", get_encoding, nullptr, nullptr, nullptr},
                             {"errors", get_errors, nullptr, nullptr, nullptr},
                             {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                        {Py_tp_methods, kMethods},
                        {Py_tp_getset, kAttributes},
                        {0, nullptr}};

PyType_Spec kSpec = {"glovebox.Output", sizeof(Stream), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kSlots};

}  // namespace

bool replace_output(Cell& /*cell*/) {
  const Ref type(PyType_FromSpec(&kSpec));
  if (!type) return false;
  constexpr std::array kNames = {"stdout", "stderr"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    auto* const python_type = reinterpret_cast<PyTypeObject*>(type.get());
    const Ref stream(PyType_GenericAlloc(python_type, 0));
    if (!stream) return false;
    as_stream(stream.get())->number = static_cast<int>(i) + 1;
    as_stream(stream.get())->pending = new std::string();
    const std::string original = "__" + std::string(kNames[i]) + "__";
    if (PySys_SetObject(kNames[i], stream.get()) != 0 ||
        PySys_SetObject(original.c_str(), stream.get()) != 0) {
      return false;
    }
  }
  return PySys_SetObject("stdin", Py_None) == 0 && PySys_SetObject("__stdin__", Py_None) == 0;
}

}  // namespace glovebox::pyhost
