// Implements fetch_from_process() of key_servers.h.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "store/credentials/key_servers.h"
#include "store/credentials/key_text.h"

extern char** environ;

namespace stoker {
namespace {

Status process_failure(std::string_view why, int os_error = EIO) {
  return {Code::denied, "credential_process: " + std::string(why), os_error};
}

/// Starts a shell in a process group of its own, whose output goes to `out`.
Result<pid_t> start_shell(const std::string& command, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string copy = command;
  std::array<char, 3> shell = {"sh"};
  std::array<char, 3> option = {"-c"};
  char* const arguments[] = {shell.data(), option.data(), copy.data(), nullptr};
  pid_t child = -1;
  const int failed = posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return process_failure("/bin/sh cannot be started", failed);
  return child;
}

/// Reads until the end, the deadline, or more bytes than keys have.
Status read_output(int fd, Deadline deadline, std::string& text) {
  constexpr std::size_t kBytesMax = std::size_t{64} << 10;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(time_left(deadline));
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    const int count = ::poll(&ready, 1, static_cast<int>(left.count()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return process_failure("did not end in time", ETIMEDOUT);
    std::array<char, 4096> buffer{};
    const ssize_t size = ::read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return process_failure("its output cannot be read", errno);
    if (size == 0) return {};
    text.append(buffer.data(), static_cast<std::size_t>(size));
    if (text.size() > kBytesMax) return process_failure("prints too much");
  }
}

}  // namespace

Result<FetchedCredentials> fetch_from_process(const std::string& command, nanoseconds timeout) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return process_failure("no pipe", errno);
  const UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  STOKER_ASSIGN(const pid_t child, start_shell(command, input.get()));
  input = UniqueFd();
  std::string text;
  const Status status = read_output(output.get(), deadline_after(timeout), text);
  if (!status.ok()) ::kill(-child, SIGKILL);
  int end = 0;
  while (::waitpid(child, &end, 0) < 0 && errno == EINTR) {
  }
  STOKER_TRY(status);
  if (!WIFEXITED(end) || WEXITSTATUS(end) != 0) return process_failure("the program failed");
  Result<FetchedCredentials> fetched = parse_json_keys(text);
  if (!fetched.ok()) return fetched.status().with_context("credential_process");
  return fetched;
}

}  // namespace stoker
