#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace stoker::testing {

/// What became of a child process.
struct ChildEnd {
  int exit_code = -1;  ///< -1 if a signal ended it.
  int signal = 0;
};

/// Runs `body` in a forked child, which ends with the code it returns and runs no destructors.
inline ChildEnd in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a child that hangs fails the test, it does not stall it
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.exit_code = WEXITSTATUS(status)};
}

/// As in_child, as an ordinary user with little locked memory: root hides failures. Code 77 (the
/// skip of old) when the test itself does not run as root and so cannot change its user.
inline constexpr int kNotRoot = 77;
inline ChildEnd in_child_as_nobody(const std::function<int()>& body) {
  return in_child([&] {
    constexpr rlimit kLittle{64 << 10, 64 << 10};
    if (::geteuid() != 0) return kNotRoot;
    ::setrlimit(RLIMIT_MEMLOCK, &kLittle);
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return kNotRoot;
    return body();
  });
}

}  // namespace stoker::testing
