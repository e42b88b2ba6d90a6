// The command line: one subcommand per file, each a thin shell around the library. Results go to
// stdout, progress and diagnostics to stderr. Exit status: 0 done, 1 failed or problems found,
// 2 misused, 130 interrupted.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <thread>

#include "cli/command.h"
#include "cli/engine_choice.h"
#include "cli/registry.h"
#include "cli/version_text.h"

namespace stoker::cli {
namespace {

constexpr int kExitInterrupted = 130;

/// Turns SIGINT, SIGTERM and SIGHUP into a stop request. A thread waits for them with
/// sigwaitinfo(), because a stop callback may not run inside a signal handler. A second signal ends
/// the process at once, except SIGHUP, which closing a terminal may send more than once.
class InterruptWatch {
 public:
  InterruptWatch() {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, SIGINT);
    ::sigaddset(&signals_, SIGTERM);
    if (!is_ignored(SIGHUP)) ::sigaddset(&signals_, SIGHUP);  // nohup ignores it on purpose
    sigset_t wake{};
    ::sigemptyset(&wake);
    ::sigaddset(&wake, kWake);
    awaited_ = signals_;
    ::sigaddset(&awaited_, kWake);
    ::pthread_sigmask(SIG_BLOCK, &awaited_, nullptr);  // the watcher inherits it
    watcher_ = std::jthread([this](const std::stop_token& done) { watch(done); });
    ::pthread_sigmask(SIG_UNBLOCK, &wake, nullptr);  // an exec'ed program would inherit the mask
  }
  /// Wakes the thread, so that a finished command ends without delay.
  ~InterruptWatch() {
    watcher_.request_stop();
    ::pthread_kill(watcher_.native_handle(), kWake);
  }
  std::stop_token token() const { return source_.get_token(); }

 private:
  static constexpr int kWake = SIGUSR1;  // sent to the watcher only, where it stays blocked

  static bool is_ignored(int signal) {
    struct sigaction action{};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  }

  void watch(const std::stop_token& done) {
    while (!done.stop_requested()) {
      const int signal = ::sigwaitinfo(&awaited_, nullptr);
      if (::sigismember(&signals_, signal) != 1) continue;
      source_.request_stop();
      sigset_t deadly = signals_;
      ::sigdelset(&deadly, SIGHUP);
      ::pthread_sigmask(SIG_UNBLOCK, &deadly, nullptr);
    }
  }

  sigset_t signals_{};
  sigset_t awaited_{};
  std::stop_source source_;
  std::jthread watcher_;  // last: it uses the members above
};

int exit_code_for(const Status& status) {
  if (status.code() == Code::invalid_argument) return kExitMisused;
  if (status.code() == Code::cancelled) return kExitInterrupted;
  return kExitFailed;
}

/// If the caller closed a standard descriptor, the first file we open would get its number, and
/// results would be written to it. Opens /dev/null in its place, for reading, so that a write fails
/// and is reported.
void fill_standard_descriptors() {
  int fd = 0;
  while ((fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd > STDERR_FILENO) ::close(fd);
}

/// Every command rejects an invalid STOKER_ENGINE, even those that use no engine. A command with
/// --engine checks it itself, because the option has priority.
void check_engine_variable(const CommandLine& line) {
  if (line.chosen_has("--engine") || line.chosen_name() == "stoker help") return;
  if (const Result<EngineKind> kind = choose_engine(""); !kind.ok())
    throw CommandFailed(kind.status());
}

std::size_t terminal_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int run(int argc, char** argv) {
  fill_standard_descriptors();
  ::signal(SIGPIPE, SIG_IGN);  // a reader that exited is a failed write, reported at the end
  ::signal(SIGXFSZ, SIG_IGN);  // a file that reached its size limit is a failed write, too
  InterruptWatch interrupt;
  Context context{.out = std::cout,
                  .err = std::cerr,
                  .stop = interrupt.token(),
                  .out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
                  .out_columns = terminal_columns(STDOUT_FILENO),
                  .err_is_terminal = ::isatty(STDERR_FILENO) == 1};
  CommandLine line("stoker",
                   "No accelerator waits for storage, and no committed checkpoint is ever lost.");
  line.add_version(version_text, version_json);
  line.before_chosen([&line] { check_engine_variable(line); });
  add_bench_command(line.top(), context);
  add_cache_command(line.top(), context);
  add_cat_command(line.top(), context);
  add_checkpoint_command(line.top(), context);
  add_completion_command(line.top(), context);
  add_convert_command(line.top(), context);
  add_cp_command(line.top(), context);
  add_doctor_command(line.top(), context);
  add_help_command(line.top(), context);
  add_index_command(line.top(), context);
  add_ls_command(line.top(), context);
  add_pack_command(line.top(), context);
  add_plan_command(line.top(), context);
  add_stage_command(line.top(), context);
  add_stats_command(line.top(), context);
  add_stream_command(line.top(), context);
  add_tune_command(line.top(), context);
  add_verify_command(line.top(), context);
  try {
    if (!line.run(argc, argv, context)) return kExitMisused;
  } catch (const CommandFailed& failure) {
    context.err << line.chosen_name() << ": " << failure.status().message() << '\n';
    return exit_code_for(failure.status());
  }
  context.out.flush();
  if (!context.out) {
    context.err << "stoker: cannot write to standard output (is the disk full?)\n";
    return kExitFailed;
  }
  return context.exit_code;
}

}  // namespace
}  // namespace stoker::cli

int main(int argc, char** argv) {
  return stoker::cli::run(argc, argv);
}
