/// \file
/// The border between the library and the programs that use it: no exception crosses it.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "stoker/status.h"

namespace stoker::internal {

/// Call it in a handler: returns the exception as a Status. `unavailable` if there is no memory (as
/// for ENOMEM), the error of a std::system_error, such as that of a thread that cannot be started,
/// and `invalid_argument` with its text for any other: only what the program has passed in throws
/// those.
Status status_of_exception() noexcept;

/// Calls `call`, which returns a Status or a Result, and returns what it returns, or what it throws
/// as a Status. Every public function that allocates, or that starts threads, is written inside
/// one.
template <typename Call>
std::invoke_result_t<Call> at_border(Call&& call) noexcept {
  try {
    return std::invoke(std::forward<Call>(call));
  } catch (...) {
    return status_of_exception();
  }
}

/// A request that can never succeed.
inline Status invalid(std::string message) {
  return {Code::invalid_argument, std::move(message)};
}

}  // namespace stoker::internal
