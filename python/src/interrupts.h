#pragma once

#include <exception>

#include "base/clock.h"
#include "stoker/status.h"

namespace stoker::python {

/// Lets Ctrl-C end waits of the core that take a pause() of ours, on the thread that Python has
/// called from. One lives on the stack of such a call, around the part without the GIL.
///
/// Thread safety: none; pause() may be called from any thread, and only sleeps on those without
/// one.
class Interrupts {
 public:
  Interrupts() noexcept;
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();

  /// Sleeps; `cancelled` after a signal whose handler has raised. The GIL must not be held.
  static Status pause(nanoseconds time);

  /// Whether one lives on this thread: Python has called from it, and it may take the GIL.
  static bool is_python_thread() noexcept;

  /// Raises what the handler has raised, if anything. The GIL must be held.
  void raise() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  Interrupts* outer_;
  std::exception_ptr raised_;
};

}  // namespace stoker::python
