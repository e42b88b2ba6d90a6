#pragma once

#include <Python.h>
#include <unistd.h>

#include <utility>

namespace stoker::python {

/// Whether the interpreter is ending; then only the thread that ends it may take the GIL.
inline bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

/// Releases the GIL for as long as it lives. A daemon thread that wants it back when the
/// interpreter is ending stays in the destructor until the process is gone: before 3.14 CPython
/// would end the thread by unwinding its stack, which C++ frames answer with an abort.
///
/// Thread safety: belongs to the thread that made it.
class ReleasedGil {
 public:
  ReleasedGil() noexcept : was_finalizing_(is_finalizing()), state_(PyEval_SaveThread()) {}
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() {
    while (!was_finalizing_ && is_finalizing()) ::pause();
    PyEval_RestoreThread(state_);
  }

 private:
  const bool was_finalizing_;  // then this is the thread that ends it
  PyThreadState* const state_;
};

/// Runs `work` with the GIL released and returns what it returns.
template <typename Work>
auto without_gil(Work&& work) {
  const ReleasedGil nogil;
  return std::forward<Work>(work)();
}

}  // namespace stoker::python
