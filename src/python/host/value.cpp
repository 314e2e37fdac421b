#include "python/host/value.h"

#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace glovebox::pyhost {
namespace {

struct Dtype {
  char format;
  Py_ssize_t size;
  const char* name;
};

// What the formats of struct are called on the wire.
constexpr std::array<Dtype, 15> kDtypes = {{{'b', 1, "int8"},
                                            {'B', 1, "uint8"},
                                            {'h', 2, "int16"},
                                            {'H', 2, "uint16"},
                                            {'i', 4, "int32"},
                                            {'I', 4, "uint32"},
                                            {'l', 8, "int64"},
                                            {'L', 8, "uint64"},
                                            {'q', 8, "int64"},
                                            {'Q', 8, "uint64"},
                                            {'e', 2, "float16"},
                                            {'f', 4, "float32"},
                                            {'d', 8, "float64"},
                                            {'?', 1, "bool"},
                                            {'c', 1, "uint8"}}};

const Dtype* find_dtype(const char* format, Py_ssize_t size) {
  if (format == nullptr) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  for (const Dtype& each : kDtypes) {
    if (*format == each.format && size == each.size && format[1] == '\0') return &each;
  }
  return nullptr;
}

void append_escaped(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      std::array<char, 8> escaped{};
      (void)std::snprintf(escaped.data(), escaped.size(), "\\u%04x", byte);
      out += escaped.data();
    } else {
      out += c;
    }
  }
  out += '"';
}

bool is_exactly(PyObject* object, PyTypeObject& type) { return Py_TYPE(object) == &type; }

}  // namespace

Encoder::~Encoder() {
  for (Py_buffer& view : held_) PyBuffer_Release(&view);
}

// Paths are any bytes, and what is cut may end within a character.
void Encoder::text(std::string_view utf8) {
  std::string plain;
  plain.reserve(utf8.size());
  while (!utf8.empty()) {
    const bool is_ascii = static_cast<unsigned char>(utf8.front()) < 0x80;
    const std::size_t size = is_ascii ? 1 : utf8_length(utf8);
    plain += size == 0 ? std::string_view("?") : utf8.substr(0, size);
    utf8.remove_prefix(std::max<std::size_t>(size, 1));
  }
  append_escaped(head_, plain);
}

void Encoder::number(long long number) { head_ += std::to_string(number); }

bool Encoder::text_of(PyObject* unicode) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(unicode, &size);
  if (bytes == nullptr) return false;  // a lone surrogate: UnicodeEncodeError says so
  append_escaped(head_, {bytes, static_cast<std::size_t>(size)});
  return true;
}

bool Encoder::integer(PyObject* object) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (number == -1 && PyErr_Occurred() != nullptr) return false;
  if (overflow == 0) {
    this->number(number);
    return true;
  }
  const Ref digits(PyObject_Str(object));
  if (!digits) return false;
  head_ += to_utf8(digits.get());
  return true;
}

bool Encoder::real(PyObject* object) {
  const double number = PyFloat_AsDouble(object);
  if (!std::isfinite(number)) {
    PyErr_SetString(PyExc_ValueError, "NaN and infinities cannot cross");
    return false;
  }
  const Ref digits(PyObject_Repr(object));
  if (!digits) return false;
  head_ += to_utf8(digits.get());
  return true;
}

bool Encoder::sequence(PyObject* object, std::size_t depth) {
  const Py_ssize_t size = PySequence_Size(object);
  head_ += '[';
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Ref item(PySequence_GetItem(object, i));
    if (!item) return false;
    if (i > 0) head_ += ',';
    if (!value(item.get(), depth + 1)) return false;
  }
  head_ += ']';
  return true;
}

bool Encoder::mapping(PyObject* object, std::size_t depth) {
  const Ref items(PyDict_Items(object));
  if (!items) return false;
  head_ += '{';
  const Py_ssize_t size = PyList_Size(items.get());
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* pair = PyList_GetItem(items.get(), i);
    PyObject* key = PyTuple_GetItem(pair, 0);
    if (!PyUnicode_Check(key)) {
      PyErr_SetString(PyExc_TypeError, "a key that is no text cannot cross");
      return false;
    }
    if (i > 0) head_ += ',';
    const std::size_t start = head_.size();
    if (!text_of(key)) return false;
    if (head_.compare(start, 2, "\"$") == 0) head_.insert(start + 1, 1, '$');
    head_ += ':';
    if (!value(PyTuple_GetItem(pair, 1), depth + 1)) return false;
  }
  head_ += '}';
  return true;
}

bool Encoder::buffer(PyObject* object) {
  Py_buffer view{};
  if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) != 0) return false;
  held_.push_back(view);
  const bool is_plain = PyBytes_Check(object) != 0 || PyByteArray_Check(object) != 0;
  const Dtype* dtype = find_dtype(view.format, view.itemsize);
  if (dtype == nullptr) {
    PyErr_SetString(PyExc_TypeError, "a buffer with items of this kind cannot cross");
    return false;
  }
  const auto size = static_cast<std::size_t>(view.len);
  head_ += is_plain ? "{\"$bytes\":[" : "{\"$array\":[";
  head_ += std::to_string(blob_bytes_) + "," + std::to_string(size) + "]";
  if (!is_plain) {
    head_ += ",\"dtype\":\"" + std::string(dtype->name) + "\",\"shape\":[";
    for (int i = 0; i < view.ndim; ++i) {
      if (i > 0) head_ += ',';
      head_ += std::to_string(view.shape[i]);
    }
    head_ += "]";
  }
  head_ += '}';
  blob_bytes_ += size;
  if (PyBuffer_IsContiguous(&view, 'C') != 0) {
    blobs_.emplace_back(static_cast<const char*>(view.buf), size);
    return true;
  }
  if (blob_bytes_ > python::kMaxMessage) {  // a view can be larger than what it is a view of
    PyErr_SetString(PyExc_OSError, "the value is too large to cross");
    return false;
  }
  std::string& copy = copies_.emplace_back(size, '\0');
  blobs_.emplace_back(copy);
  return PyBuffer_ToContiguous(copy.data(), &view, view.len, 'C') == 0;
}

bool Encoder::value(PyObject* object, std::size_t depth) {
  if (depth > python::kMaxDepth) {
    PyErr_Format(PyExc_ValueError, "a value nested deeper than %zu cannot cross",
                 python::kMaxDepth);
    return false;
  }
  if (head_.size() + blob_bytes_ > python::kMaxMessage) {
    PyErr_Format(PyExc_ValueError, "a value of more than %zu MiB cannot cross",
                 python::kMaxMessage >> 20);
    return false;
  }
  if (object == Py_None) return head_ += "null", true;
  if (object == Py_True) return head_ += "true", true;
  if (object == Py_False) return head_ += "false", true;
  if (PyUnicode_Check(object)) return text_of(object);
  if (PyLong_Check(object)) return integer(object);
  if (is_exactly(object, PyFloat_Type)) return real(object);
  if (is_exactly(object, PyList_Type) || PyTuple_Check(object)) return sequence(object, depth);
  if (PyDict_Check(object)) return mapping(object, depth);
  if (PyObject_CheckBuffer(object) != 0) return buffer(object);
  const Ref type_name(PyType_GetName(Py_TYPE(object)));
  const std::string name = type_name ? to_utf8(type_name.get()) : "object";
  PyErr_Format(PyExc_TypeError, "a value of type '%s' cannot cross", name.c_str());
  return false;
}

std::string to_utf8(PyObject* unicode) {
  const SavedError saved;
  const Ref bytes(PyUnicode_Check(unicode) ? PyUnicode_AsEncodedString(unicode, "utf-8", "replace")
                                           : nullptr);
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (!bytes || PyBytes_AsStringAndSize(bytes.get(), &data, &size) != 0) {
    PyErr_Clear();
    return "?";
  }
  return {data, static_cast<std::size_t>(size)};
}

Ref make_text(std::string_view utf8) {
  return Ref(PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace"));
}

std::string text_at(PyObject* dict, const char* key, const char* otherwise) {
  PyObject* found = PyDict_GetItemString(dict, key);
  return found != nullptr && PyUnicode_Check(found) ? to_utf8(found) : otherwise;
}

}  // namespace glovebox::pyhost
