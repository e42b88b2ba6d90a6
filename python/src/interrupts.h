#pragma once

#include <exception>

#include "base/clock.h"
#include "stoker/status.h"

namespace stoker::python {

/// Lets Ctrl-C end waits in the core that use pause(), on a thread that Python called from. An
/// instance is on the stack of such a call, around the part without the GIL.
///
/// Thread safety: none. pause() may be called from any thread; without an instance on the thread it
/// only sleeps.
class Interrupts {
 public:
  Interrupts() noexcept;
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();

  /// Sleeps; `cancelled` after a signal whose handler raised. The GIL must not be held.
  static Status pause(nanoseconds time);

  /// Whether an instance exists on this thread: Python called from it, and it may take the GIL.
  static bool is_python_thread() noexcept;

  /// Raises the exception of the signal handler, if any. The GIL must be held.
  void raise() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  Interrupts* outer_;
  std::exception_ptr raised_;
};

}  // namespace stoker::python
