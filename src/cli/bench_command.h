/// \file
/// What the subcommands of `stoker bench` share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "bench/disk_bench.h"
#include "cli/command.h"
#include "cli/engine_choice.h"

namespace stoker::cli {

void add_bench_checkpoint_command(CLI::App& bench, Context& context);
void add_bench_disk_command(CLI::App& bench, Context& context);
void add_bench_cliff_command(CLI::App& bench, Context& context);

/// parse_bytes with the option's name before the refusal.
Result<std::uint64_t> parse_size_option(std::string_view option, const std::string& text);

/// DIR, which may be left out. The old spelling, --path DIR, still works and is not shown.
void add_bench_directory(CLI::App& command, std::string& directory, const char* help);

/// `parsed`, with the option's name before the refusal.
template <typename T>
Result<T> named(std::string_view option, Result<T> parsed) {
  return parsed.ok() ? std::move(parsed) : Result<T>(parsed.status().with_context(option));
}

/// Throws CommandFailed with what the user can do about it. One line.
[[noreturn]] void fail_with_advice(const Status& status);

/// Says on `err` what is going on: on a terminal one line that is written over and over, otherwise
/// one line for each step if `verbose`, else nothing.
///
/// Thread safety: none.
class ProgressLine {
 public:
  ProgressLine(Context& context, bool verbose) : context_(context), verbose_(verbose) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  void show(const Progress& progress);
  void clear();  ///< Before anything else is written.

 private:
  Context& context_;
  bool verbose_;
  bool is_shown_ = false;
};

}  // namespace stoker::cli
