// The command line: one subcommand per file, each a thin shell around the library. Results go to
// stdout, progress and diagnostics to stderr. Exit status: 0 done, 1 failed or bad news found,
// 2 misused, 130 interrupted.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <thread>

#include "cli/command.h"
#include "cli/engine_choice.h"
#include "cli/help_formatter.h"
#include "cli/misuse_line.h"
#include "stoker/version.h"

namespace stoker::cli {
namespace {

constexpr int kExitInterrupted = 130;

/// Turns SIGINT, SIGTERM and SIGHUP into a stop request. A thread waits for them with sigwait,
/// because nothing that a stop callback does would be allowed inside a signal handler. A second
/// signal ends the process at once, but for SIGHUP: who closes a terminal sends it more than once.
class InterruptWatch {
 public:
  InterruptWatch() {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, SIGINT);
    ::sigaddset(&signals_, SIGTERM);
    if (!is_ignored(SIGHUP)) ::sigaddset(&signals_, SIGHUP);  // nohup ignores it, and means it
    sigset_t wake{};
    ::sigemptyset(&wake);
    ::sigaddset(&wake, kWake);
    awaited_ = signals_;
    ::sigaddset(&awaited_, kWake);
    ::pthread_sigmask(SIG_BLOCK, &awaited_, nullptr);  // the watcher inherits it
    watcher_ = std::jthread([this](const std::stop_token& done) { watch(done); });
    ::pthread_sigmask(SIG_UNBLOCK, &wake, nullptr);  // no program that takes our place does
  }
  /// Wakes the thread: nobody shall wait for the end of a command that is done.
  ~InterruptWatch() {
    watcher_.request_stop();
    ::pthread_kill(watcher_.native_handle(), kWake);
  }
  std::stop_token token() const { return source_.get_token(); }

 private:
  static constexpr int kWake = SIGUSR1;  // to this thread alone; never unblocked

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

/// A standard descriptor that the caller closed would be the number of the first file we open, and
/// results would end up in it. /dev/null takes its place, for reading: a write to it fails and is
/// reported.
void fill_standard_descriptors() {
  int fd = 0;
  while ((fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd > STDERR_FILENO) ::close(fd);
}

/// A wrong STOKER_ENGINE is refused by every command, also by those that no engine works for. Where
/// there is --engine the command asks itself: the flag comes first.
void check_engine_variable(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  if (command->get_option_no_throw("--engine") != nullptr || command->get_name() == "help") return;
  if (const Result<EngineKind> kind = choose_engine(""); !kind.ok())
    throw CommandFailed(kind.status());
}

std::size_t terminal_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int run(int argc, char** argv) {
  fill_standard_descriptors();
  ::signal(SIGPIPE, SIG_IGN);  // a reader that went away is a failed write, reported at the end
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow any more is one as well
  InterruptWatch interrupt;
  Context context{.out = std::cout,
                  .err = std::cerr,
                  .stop = interrupt.token(),
                  .out_is_terminal = ::isatty(STDOUT_FILENO) == 1,
                  .out_columns = terminal_columns(STDOUT_FILENO),
                  .err_is_terminal = ::isatty(STDERR_FILENO) == 1};
  CLI::App app("No accelerator waits for storage, and no committed checkpoint is ever lost.",
               "stoker");
  app.formatter(std::make_shared<HelpFormatter>());  // before the commands, which inherit it
  app.set_version_flag("--version", std::string("stoker ") + kVersion);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* command, const CLI::Error& error) {
    return misuse_line(*command, error);
  });
  app.parse_complete_callback([&app] { check_engine_variable(app); });  // before the command's own
  add_bench_command(app, context);
  add_cat_command(app, context);
  add_checkpoint_command(app, context);
  add_convert_command(app, context);
  add_doctor_command(app, context);
  add_help_command(app, context);
  add_index_command(app, context);
  add_ls_command(app, context);
  add_pack_command(app, context);
  add_stats_command(app, context);
  add_stream_command(app, context);
  add_tune_command(app, context);
  add_verify_command(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version come here with 0 and still have to be written out.
    if (app.exit(error, context.out, context.err) != 0) return kExitMisused;
  } catch (const CommandFailed& failure) {
    context.err << command_name(app) << ": " << failure.status().message() << '\n';
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
