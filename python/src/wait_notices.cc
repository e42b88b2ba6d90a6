#include "wait_notices.h"

#include <nanobind/nanobind.h>

#include "gil.h"
#include "interrupts.h"

namespace nb = nanobind;

namespace stoker::python {

WaitSink WaitNotices::sink(std::shared_ptr<WaitNotices> notices) {
  const nanoseconds after = notices->after_;
  return {.tell = [notices = std::move(notices)](const std::string& text) { notices->say(text); },
          .after = after};
}

void WaitNotices::say(const std::string& text) {
  if (!Interrupts::is_python_thread()) {
    const MutexLock lock(mutex_);
    said_.push_back(text);
    return;
  }
  const TakenGil gil;
  try {
    nb::module_::import_("logging").attr("getLogger")("stoker").attr("warning")(
        "%s", nb::steal<nb::str>(PyUnicode_DecodeUTF8(
                  text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape")));
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("stoker: a notice could not be logged");
  }
}

}  // namespace stoker::python
