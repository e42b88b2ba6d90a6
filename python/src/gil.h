#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace stoker::python {

/// Releases the GIL for its lifetime.
///
/// A daemon thread that wants the GIL back during interpreter shutdown never gets it: it pauses
/// until the process ends. Before 3.14, CPython ends such a thread by unwinding its stack, which
/// aborts in C++ frames: the unwinding is caught here. The shutdown may begin while the thread
/// already waits for the GIL, so it is not enough to look before.
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
    or_stay([this] { PyEval_RestoreThread(state_); });
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
  /// Calls `take`, which takes the GIL; stays here if CPython ends the thread instead.
  template <typename Take>
  static void or_stay(const Take& take) noexcept {
    try {
      take();
    } catch (const abi::__forced_unwind&) {
      while (true) ::pause();
    }
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
    ReleasedGil::or_stay([this] { state_ = PyGILState_Ensure(); });
  }
  TakenGil(const TakenGil&) = delete;
  TakenGil& operator=(const TakenGil&) = delete;
  ~TakenGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_ = PyGILState_UNLOCKED;
};

/// Runs `work` with the GIL released and returns its result.
template <typename Work>
auto without_gil(Work&& work) {
  const ReleasedGil nogil;
  return std::forward<Work>(work)();
}

}  // namespace stoker::python
