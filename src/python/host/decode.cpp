// From JSON to objects. The supervisor has checked the message; a wrong one is still an exception
// and nothing worse.
#include "python/host/value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace glovebox::pyhost {
namespace {

constexpr std::size_t kMostDigits = 24;  // of an id, with what may stand before it

// Empty for what is no message: no JSON then, and that is an exception.
python::MessageParts parts_of(std::string_view message, Form form) {
  return python::split_message(message, form).value_or(python::MessageParts{});
}

float widen(unsigned half) {
  const int exponent = static_cast<int>(half >> 10 & 31);
  const auto digits = static_cast<float>(exponent == 0 ? half & 1023 : (half & 1023) | 1024);
  float number = std::ldexp(digits, std::max(exponent, 1) - 25);
  if (exponent == 31) {
    number = (half & 1023) == 0 ? std::numeric_limits<float>::infinity()
                                : std::numeric_limits<float>::quiet_NaN();
  }
  return (half & 0x8000) != 0 ? -number : number;
}

// float16 as float32, which has all of its values: a memoryview does not compute with the first.
Ref widen_all(PyObject* bytes) {
  const Py_ssize_t size = PyBytes_Size(bytes);
  Ref wide(PyBytes_FromStringAndSize(nullptr, size / 2 * 4));
  if (!wide) return wide;
  const char* from = PyBytes_AsString(bytes);
  char* to = PyBytes_AsString(wide.get());
  for (Py_ssize_t i = 0; i < size / 2; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, from + 2 * i, sizeof half);
    const float number = widen(half);
    std::memcpy(to + 4 * i, &number, sizeof number);
  }
  return wide;
}

class Decoder {
 public:
  Decoder(std::string_view json, std::string_view blobs) : json_(json), blobs_(blobs) {}

  Ref whole() {
    Ref value = this->value(0);
    skip();
    if (value && at_ != json_.size()) return bad();
    return value;
  }

 private:
  static Ref bad() {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_ValueError, "no message");
    return Ref();
  }
  void skip() {
    while (at_ < json_.size() && std::strchr(" \t\r\n", json_[at_]) != nullptr) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= json_.size() || json_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (json_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Ref value(std::size_t depth) {
    skip();
    if (at_ >= json_.size() || depth > python::kMaxDepth) return bad();
    switch (json_[at_]) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return string();
      case 'n': return take_word("null") ? Ref::borrow(Py_None) : bad();
      case 't': return take_word("true") ? Ref::borrow(Py_True) : bad();
      case 'f': return take_word("false") ? Ref::borrow(Py_False) : bad();
      default: return number();
    }
  }

  Ref array(std::size_t depth) {
    Ref list(PyList_New(0));
    ++at_;
    if (!list || take(']')) return list;
    do {
      const Ref item = value(depth + 1);
      if (!item || PyList_Append(list.get(), item.get()) != 0) return bad();
    } while (take(','));
    return take(']') ? std::move(list) : bad();
  }

  Ref object(std::size_t depth) {
    Ref dict(PyDict_New());
    ++at_;
    if (!dict || take('}')) return dict;
    bool is_special = false;
    do {
      skip();
      if (at_ >= json_.size() || json_[at_] != '"') return bad();
      std::string key;
      if (!text(key)) return bad();
      if (key.starts_with("$$")) {
        key.erase(0, 1);
      } else if (key.starts_with('$')) {
        is_special = true;
      }
      if (!take(':')) return bad();
      const Ref item = value(depth + 1);
      const Ref name = make_text(key);
      if (!item || !name || PyDict_SetItem(dict.get(), name.get(), item.get()) != 0) return bad();
    } while (take(','));
    if (!take('}')) return bad();
    return is_special ? special(dict.get()) : std::move(dict);
  }

  // {"$bytes": [offset, size]} and {"$array": [offset, size], ...}.
  Ref special(PyObject* dict) {
    PyObject* place = PyDict_GetItemString(dict, "$bytes");
    const bool is_bytes = place != nullptr;
    if (!is_bytes) place = PyDict_GetItemString(dict, "$array");
    if (place == nullptr || !PyList_Check(place) || PyList_Size(place) != 2) return bad();
    const Py_ssize_t offset = PyLong_AsSsize_t(PyList_GetItem(place, 0));
    const Py_ssize_t size = PyLong_AsSsize_t(PyList_GetItem(place, 1));
    const auto whole = static_cast<Py_ssize_t>(blobs_.size());
    if (offset < 0 || size < 0 || offset > whole || size > whole - offset) return bad();
    Ref bytes(PyBytes_FromStringAndSize(blobs_.data() + offset, size));
    if (!bytes || is_bytes) return bytes;
    return as_array(bytes.get(), dict);
  }

  static Ref as_array(PyObject* bytes, PyObject* dict) {
    const std::string dtype = text_at(dict, "dtype");
    PyObject* shape = PyDict_GetItemString(dict, "shape");
    const char* format = dtype == "int8"      ? "b"
                         : dtype == "uint8"   ? "B"
                         : dtype == "int16"   ? "h"
                         : dtype == "uint16"  ? "H"
                         : dtype == "int32"   ? "i"
                         : dtype == "uint32"  ? "I"
                         : dtype == "int64"   ? "q"
                         : dtype == "uint64"  ? "Q"
                         : dtype == "float16" ? "f"
                         : dtype == "float32" ? "f"
                         : dtype == "float64" ? "d"
                         : dtype == "bool"    ? "?"
                                              : nullptr;
    if (format == nullptr || shape == nullptr || !PyList_Check(shape)) return bad();
    const Ref wide = dtype == "float16" ? widen_all(bytes) : Ref::borrow(bytes);
    const Ref view(wide ? PyMemoryView_FromObject(wide.get()) : nullptr);
    if (!view) return bad();
    if (PyBytes_Size(bytes) == 0) return Ref(PyObject_CallMethod(view.get(), "cast", "s", format));
    return Ref(PyObject_CallMethod(view.get(), "cast", "sO", format, shape));
  }

  Ref string() {
    std::string decoded;
    return text(decoded) ? make_text(decoded) : bad();
  }

  bool text(std::string& out) {
    ++at_;
    while (at_ < json_.size() && json_[at_] != '"') {
      const std::size_t plain = json_.find_first_of("\"\\", at_);
      if (plain == std::string_view::npos) return false;
      out += json_.substr(at_, plain - at_);
      at_ = plain;
      if (json_[at_] == '\\' && !escape(out)) return false;
    }
    if (at_ >= json_.size()) return false;
    ++at_;
    return true;
  }

  bool hex(unsigned& code) {
    if (at_ + 4 > json_.size()) return false;
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = json_[at_++];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return false;
      code = code * 16 + static_cast<unsigned>(digit);
    }
    return true;
  }

  bool escape(std::string& out) {
    if (at_ + 1 >= json_.size()) return false;
    const char kind = json_[at_ + 1];
    at_ += 2;
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const std::size_t found = kFrom.find(kind); found != std::string_view::npos) {
      out += kTo[found];
      return true;
    }
    unsigned code = 0;
    if (kind != 'u' || !hex(code)) return false;
    unsigned low = 0;
    if (code >= 0xd800 && code < 0xdc00 && take_word("\\u")) {
      if (!hex(low) || low < 0xdc00 || low > 0xdfff) return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(out, code);
    return true;
  }

  static void append_utf8(std::string& out, unsigned code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
    out += static_cast<char>(kLead[more] | (code >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 63));
  }

  Ref number() {
    const std::size_t end = std::min(json_.find_first_not_of("+-0123456789.eE", at_), json_.size());
    const std::string digits(json_.substr(at_, end - at_));
    if (digits.empty()) return bad();
    at_ = end;
    if (digits.find_first_of(".eE") == std::string::npos) {
      return Ref(PyLong_FromString(digits.c_str(), nullptr, 10));
    }
    const double parsed = PyOS_string_to_double(digits.c_str(), nullptr, nullptr);
    if (PyErr_Occurred() != nullptr) return bad();
    return Ref(PyFloat_FromDouble(parsed));
  }

  std::string_view json_;
  std::string_view blobs_;
  std::size_t at_ = 0;
};

}  // namespace

Ref decode(std::string_view message, Form form) {
  const python::MessageParts parts = parts_of(message, form);
  return Decoder(parts.json, parts.blobs).whole();
}

// The supervisor has parsed the JSON: it is enough to tell texts from what is between them.
std::uint64_t find_id(std::string_view message, Form form) {
  const std::string_view json = parts_of(message, form).json;
  std::uint64_t id = 0;
  int depth = 0;
  for (std::size_t at = 0; at < json.size(); ++at) {
    depth += json[at] == '{' || json[at] == '[' ? 1 : json[at] == '}' || json[at] == ']' ? -1 : 0;
    if (json[at] != '"') continue;
    const std::size_t start = ++at;
    while (at < json.size() && json[at] != '"') at += json[at] == '\\' ? 2 : 1;
    const std::size_t colon = json.find_first_not_of(" \t\r\n", std::min(at + 1, json.size()));
    if (depth != 1 || json.substr(start, at - start) != "id" || colon == std::string_view::npos ||
        json[colon] != ':') {
      continue;
    }
    id = std::strtoull(std::string(json.substr(colon + 1, kMostDigits)).c_str(), nullptr, 10);
  }
  return id;
}

}  // namespace glovebox::pyhost
