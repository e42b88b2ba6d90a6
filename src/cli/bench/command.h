/// \file
/// What the subcommands of `stoker bench` share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "bench/disk/disk_bench.h"
#include "cli/command.h"
#include "cli/engine_choice.h"

namespace stoker::cli {

void add_bench_checkpoint_command(CLI::App& bench, Context& context);
void add_bench_disk_command(CLI::App& bench, Context& context);
void add_bench_cliff_command(CLI::App& bench, Context& context);

/// DIR, which may be left out. The old spelling, --path DIR, still works and is not shown.
void add_bench_directory(CLI::App& command, std::string& directory, const char* help);

/// Throws CommandFailed with what the user can do about it. One line.
[[noreturn]] void fail_with_advice(const Status& status);

}  // namespace stoker::cli
