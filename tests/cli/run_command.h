#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::testing {

/// How to run `stoker`.
struct Run {
  std::vector<std::string> args;
  std::map<std::string, std::string> environment = {};  ///< On top of ours, without STOKER_ENGINE.
  int stdout_fd = -1;                                   ///< Instead of a pipe that we read.
  std::function<bool()> in_child = {};  ///< Before exec; false ends the child with 77.
  /// Sees each line of stderr as it comes, with the running process.
  std::function<void(pid_t, std::string_view)> on_err_line = {};
  /// The same for stdout, if that is a pipe.
  std::function<void(pid_t, std::string_view)> on_out_line = {};
};

struct Ran {
  int exit_code = -1;  ///< -1 if a signal ended it.
  int signal = 0;
  std::string out;
  std::string err;
};

inline constexpr int kCannotSetUp = 77;

/// Runs the built command to its end; after two minutes SIGALRM ends it, and fails the test.
Ran run_stoker(const Run& run);

/// Whether `text` is exactly one line that contains every part.
bool is_one_line_with(const std::string& text, const std::vector<std::string>& parts);

/// For Run::in_child: an ordinary user with little locked memory. False if we are not root.
bool become_nobody();
/// For Run::in_child: io_uring_setup answers EPERM, as in a container.
bool forbid_io_uring();
/// For Run::in_child: whoever tries io_uring is ended by SIGSYS.
bool die_of_io_uring();

}  // namespace stoker::testing
