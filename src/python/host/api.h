// CPython as this folder uses it: the limited API of 3.11, so that one build serves every later
// version, and a reference that is given back.
//
// Three functions are not part of the limited API and yet exported, with these signatures, by every
// interpreter since 3.8; they are declared here.
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include <Python.h>
#pragma GCC diagnostic pop

#include <utility>

extern "C" {
using GloveboxAuditHook = int (*)(const char* event, PyObject* arguments, void* data);
int PySys_AddAuditHook(GloveboxAuditHook hook, void* data);
}

namespace glovebox::pyhost {

// Owns one reference to an object, or nothing. The GIL is held wherever one is copied or destroyed.
class Ref {
 public:
  Ref() = default;
  // Takes over a reference that the caller owns.
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  // For functions that return a new reference.
  PyObject* release() { return std::exchange(object_, nullptr); }
  void reset() { Py_CLEAR(object_); }

 private:
  PyObject* object_ = nullptr;
};

// Without the GIL for as long as it lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

// The collector does not run for as long as it lives, so neither do finalizers of the cell's.
class WithoutCollector {
 public:
  WithoutCollector() : was_enabled_(PyGC_Disable() != 0) {}
  WithoutCollector(const WithoutCollector&) = delete;
  WithoutCollector& operator=(const WithoutCollector&) = delete;
  ~WithoutCollector() {
    if (was_enabled_) (void)PyGC_Enable();  // tells what it was
  }

 private:
  bool was_enabled_;
};

// An exception that is under way is put aside and comes back.
class SavedError {
 public:
  SavedError() { PyErr_Fetch(&type_, &value_, &trace_); }
  SavedError(const SavedError&) = delete;
  SavedError& operator=(const SavedError&) = delete;
  ~SavedError() { PyErr_Restore(type_, value_, trace_); }

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* trace_ = nullptr;
};

}  // namespace glovebox::pyhost
