#pragma once

#include <cstddef>
#include <exception>
#include <iosfwd>
#include <stop_token>
#include <utility>

#include "stoker/status.h"

namespace stoker::cli {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitMisused = 2;

/// Passed from main() to each command. Results go to `out`; progress and diagnostics go to `err`.
struct Context {
  std::ostream& out;
  std::ostream& err;
  std::stop_token stop;  ///< Fires on Ctrl-C, SIGTERM and SIGHUP.
  bool out_is_terminal = false;
  std::size_t out_columns = 0;  ///< Width of that terminal; 0 if unknown or not a terminal.
  bool err_is_terminal = false;
  int exit_code = 0;  ///< Set by a command that succeeded but found problems.
};

/// Thrown by a command's callback, caught in main(), which prints one line and exits with 2 for
/// `invalid_argument`, 130 for `cancelled`, 1 otherwise. It never crosses into the library.
class CommandFailed : public std::exception {
 public:
  explicit CommandFailed(Status status) : status_(std::move(status)) {}
  const Status& status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace stoker::cli
