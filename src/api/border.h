/// \file
/// The border between the library and the programs that use it: no exception crosses it.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/exception_status.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Calls `call`, which returns a Status or a Result, and returns what it returns, or what it throws
/// as a Status. Every public function that returns one of these, and allocates or calls what a
/// program has passed in, is written inside one. Functions that return no Status may throw
/// std::bad_alloc, as those of the standard library do, and nothing else.
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
