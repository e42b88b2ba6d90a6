#include "interrupts.h"

#include <nanobind/nanobind.h>

#include <thread>

#include "gil.h"

namespace nb = nanobind;

namespace stoker::python {
namespace {

thread_local Interrupts* current = nullptr;

}  // namespace

Interrupts::Interrupts() noexcept : outer_(current) {
  current = this;
}

Interrupts::~Interrupts() {
  current = outer_;
}

bool Interrupts::is_python_thread() noexcept {
  return current != nullptr;
}

Status Interrupts::pause(nanoseconds time) {
  std::this_thread::sleep_for(time);
  if (current == nullptr) return {};  // a native thread: those never take the GIL
  const TakenGil gil;
  if (PyErr_CheckSignals() == 0) return {};
  current->raised_ = std::make_exception_ptr(nb::python_error());
  return Status(Code::cancelled, "interrupted");
}

}  // namespace stoker::python
