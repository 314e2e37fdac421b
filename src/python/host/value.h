// Values as they cross: JSON, with bytes and buffers beside it.
//
// None, bool, int, float, str, list, tuple (which arrives as a list) and dict with text keys are
// JSON. bytes and bytearray become {"$bytes": [offset, size]}, other buffers (memoryview, array,
// an array of numpy) {"$array": [offset, size], "dtype": "float64", "shape": [2, 3]}, and the bytes
// follow the JSON. What is not contiguous is copied; float16 arrives as float32. A key of the
// program's own that begins with "$" gets a second one. Anything else is a TypeError where it is
// made, and so are NaN and infinities, which JSON does not have.
#pragma once

#include "python/host/api.h"
#include "python/host/frames.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace glovebox::pyhost {

// Appends JSON for messages, and holds the buffers that go with it.
class Encoder {
 public:
  Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder();  // with the GIL

  // False with an exception set.
  bool value(PyObject* object, std::size_t depth = 0);
  void raw(std::string_view json) { head_ += json; }
  void text(std::string_view utf8);  // as a JSON string; what is no UTF-8 is replaced
  void number(long long number);

  const std::string& head() const { return head_; }
  const std::vector<Blob>& blobs() const { return blobs_; }

 private:
  bool text_of(PyObject* unicode);
  bool integer(PyObject* object);
  bool real(PyObject* object);
  bool sequence(PyObject* object, std::size_t depth);
  bool mapping(PyObject* object, std::size_t depth);
  bool buffer(PyObject* object);

  std::string head_;
  std::vector<Blob> blobs_;
  std::vector<Py_buffer> held_;
  std::deque<std::string> copies_;  // of buffers that are not contiguous
  std::size_t blob_bytes_ = 0;
};

// The value of a message; an empty Ref with an exception set when it is none.
Ref decode(std::string_view message, Form form);

// The "id" of a message, also of one that decode() has failed on, for want of memory or because of
// a value in it: its sender is owed an answer. 0 when it has none.
std::uint64_t find_id(std::string_view message, Form form);

// "text" of a dict, or what is given otherwise. For messages of the supervisor.
std::string text_at(PyObject* dict, const char* key, const char* otherwise = "");
// A str as UTF-8; lone surrogates and the like come out as '?'. Never fails, leaves no exception.
std::string to_utf8(PyObject* unicode);
Ref make_text(std::string_view utf8);

}  // namespace glovebox::pyhost
