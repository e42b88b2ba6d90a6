#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <exception>
#include <iosfwd>
#include <memory>
#include <stop_token>
#include <utility>

#include "stoker/status.h"

namespace stoker::cli {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitMisused = 2;

/// What main() gives each command. Results go to `out`; progress and diagnostics go to `err`.
struct Context {
  std::ostream& out;
  std::ostream& err;
  std::stop_token stop;  ///< Fires on Ctrl-C, SIGTERM and SIGHUP.
  bool out_is_terminal = false;
  std::size_t out_columns = 0;  ///< Of that terminal; 0 if it is none or does not tell.
  bool err_is_terminal = false;
  int exit_code = 0;  ///< For a command that worked and has bad news.
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

/// Calls `run(*arguments, context)`, which returns a Status, when the command was chosen.
template <typename Arguments, typename Run>
void on_chosen(CLI::App& command, std::shared_ptr<Arguments> arguments, Context& context, Run run) {
  command.callback([arguments = std::move(arguments), &context, run] {
    if (Status status = run(*arguments, context); !status.ok())
      throw CommandFailed(std::move(status));
  });
}

/// Each adds one subcommand, in a file of its own: <name>_command.cc.
void add_bench_command(CLI::App& app, Context& context);
void add_cat_command(CLI::App& app, Context& context);
void add_checkpoint_command(CLI::App& app, Context& context);
void add_convert_command(CLI::App& app, Context& context);
void add_doctor_command(CLI::App& app, Context& context);
void add_help_command(CLI::App& app, Context& context);
void add_index_command(CLI::App& app, Context& context);
void add_ls_command(CLI::App& app, Context& context);
void add_pack_command(CLI::App& app, Context& context);
void add_stats_command(CLI::App& app, Context& context);
void add_stream_command(CLI::App& app, Context& context);
void add_tune_command(CLI::App& app, Context& context);
void add_verify_command(CLI::App& app, Context& context);

}  // namespace stoker::cli
