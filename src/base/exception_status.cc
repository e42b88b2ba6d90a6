#include "base/exception_status.h"

#include <cerrno>
#include <exception>
#include <new>
#include <string>
#include <system_error>

namespace stoker::internal {
namespace {

/// Made when the library is loaded: there is no memory for it when it is needed.
const Status& out_of_memory() noexcept {
  static const Status status(Code::unavailable, "out of memory", ENOMEM);
  return status;
}
[[maybe_unused]] const Status& kMadeEarly = out_of_memory();

}  // namespace

Status status_of_exception() noexcept {
  try {
    try {
      throw;
    } catch (const std::system_error& error) {
      const int os_error = error.code().value();
      return {Status::from_errno(os_error, "", "").code(), error.what(), os_error};
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::exception& error) {
      return {Code::invalid_argument, std::string("exception: ") + error.what()};
    } catch (...) {
      return {Code::invalid_argument, "an exception that is no std::exception"};
    }
  } catch (...) {
    return out_of_memory();
  }
}

}  // namespace stoker::internal
