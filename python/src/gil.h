#pragma once

#include <Python.h>
#include <unistd.h>

#include <utility>

namespace stoker::python {

/// Releases the GIL for its lifetime.
///
/// A daemon thread that wants the GIL back during interpreter shutdown never gets it: it pauses
/// until the process ends. Before 3.14, CPython would end the thread by unwinding its stack, which
/// aborts in C++ frames.
///
/// Thread safety: belongs to the thread that created it, which must hold the GIL then.
class ReleasedGil {
 public:
  ReleasedGil() noexcept
      : outer_(current_), is_ending_(is_finalizing()), state_(PyEval_SaveThread()) {
    current_ = this;
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() {
    stay_if_ending();
    current_ = outer_;
    PyEval_RestoreThread(state_);
  }

 private:
  friend class TakenGil;

  static bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }
  void stay_if_ending() const noexcept {
    while (!is_ending_ && is_finalizing()) ::pause();
  }

  static inline thread_local ReleasedGil* current_ = nullptr;

  ReleasedGil* const outer_;
  const bool is_ending_;  // held the GIL during shutdown: the thread that ends the interpreter
  PyThreadState* const state_;
};

/// Holds the GIL for its lifetime, below a ReleasedGil of the same thread.
class TakenGil {
 public:
  TakenGil() noexcept {
    if (ReleasedGil::current_ != nullptr) ReleasedGil::current_->stay_if_ending();
    state_ = PyGILState_Ensure();
  }
  TakenGil(const TakenGil&) = delete;
  TakenGil& operator=(const TakenGil&) = delete;
  ~TakenGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

/// Runs `work` with the GIL released and returns its result.
template <typename Work>
auto without_gil(Work&& work) {
  const ReleasedGil nogil;
  return std::forward<Work>(work)();
}

}  // namespace stoker::python
