#include "cli/run_command.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "base/unique_fd.h"

extern char** environ;

namespace stoker::testing {
namespace {

constexpr unsigned kPatienceSeconds = 120;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<std::string> environment_of(const Run& run) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (name != "STOKER_ENGINE" && !run.environment.contains(name)) all.emplace_back(text);
  }
  for (const auto& [name, value] : run.environment) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Reads what is there into `text`. False at the end.
bool read_some(int fd, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t n = ::read(fd, buffer.data(), buffer.size());
  if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

/// Shows the whole lines of `text` from `seen` on, and moves it behind them.
void show_lines(const std::string& text, std::size_t& seen, pid_t child,
                const std::function<void(pid_t, std::string_view)>& on_line) {
  for (std::size_t end; (end = text.find('\n', seen)) != std::string::npos; seen = end + 1)
    if (on_line) on_line(child, std::string_view(text).substr(seen, end - seen));
}

void read_both(int out_fd, int err_fd, pid_t child, const Run& run, Ran& ran) {
  std::array<pollfd, 2> waits = {pollfd{out_fd, POLLIN, 0}, pollfd{err_fd, POLLIN, 0}};
  std::size_t out_seen = 0;
  std::size_t err_seen = 0;
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits[0].revents != 0 && !read_some(out_fd, ran.out)) waits[0].fd = -1;
    if (waits[1].revents != 0 && !read_some(err_fd, ran.err)) waits[1].fd = -1;
    show_lines(ran.out, out_seen, child, run.on_out_line);
    show_lines(ran.err, err_seen, child, run.on_err_line);
  }
}

}  // namespace

Ran run_stoker(const Run& run) {
  std::vector<std::string> args = {"stoker"};
  args.insert(args.end(), run.args.begin(), run.args.end());
  std::vector<std::string> environment = environment_of(run);
  const std::vector<char*> arg_pointers = pointers_to(args);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  // By descriptor, because an ordinary user may not reach the build directory.
  const UniqueFd program(::open(STOKER_COMMAND, O_RDONLY | O_CLOEXEC));
  Pipe out = make_pipe();
  Pipe err = make_pipe();

  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kPatienceSeconds);
    ::dup2(run.stdout_fd >= 0 ? run.stdout_fd : out.write_end.get(), STDOUT_FILENO);
    ::dup2(err.write_end.get(), STDERR_FILENO);
    if (run.in_child && !run.in_child()) ::_exit(kCannotSetUp);
    ::fexecve(program.get(), arg_pointers.data(), environment_pointers.data());
    ::_exit(126);
  }
  out.write_end = UniqueFd();
  err.write_end = UniqueFd();
  Ran ran;
  read_both(out.read_end.get(), err.read_end.get(), child, run, ran);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    ran.signal = WTERMSIG(status);
  else
    ran.exit_code = WEXITSTATUS(status);
  return ran;
}

bool is_one_line_with(const std::string& text, const std::vector<std::string>& parts) {
  return std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n' &&
         std::all_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return text.find(part) != std::string::npos; });
}

bool become_nobody() {
  constexpr rlimit kLittle{64 << 10, 64 << 10};
  return ::geteuid() == 0 && ::setrlimit(RLIMIT_MEMLOCK, &kLittle) == 0 && ::setgid(65534) == 0 &&
         ::setuid(65534) == 0;
}

namespace {

bool answer_io_uring_with(std::uint32_t action) {
  std::array filter = {
      sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_io_uring_setup},
      sock_filter{BPF_RET | BPF_K, 0, 0, action},
      sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

bool forbid_io_uring() {
  return answer_io_uring_with(SECCOMP_RET_ERRNO | EPERM);
}

bool die_of_io_uring() {
  return answer_io_uring_with(SECCOMP_RET_KILL_PROCESS);
}

}  // namespace stoker::testing
