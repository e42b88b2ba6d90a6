/// \file
/// Shared by the subcommands of `stoker bench`.
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

void add_bench_checkpoint_command(Command& bench, Context& context);
void add_bench_disk_command(Command& bench, Context& context);
void add_bench_cliff_command(Command& bench, Context& context);
void add_bench_gpu_command(Command& bench, Context& context);

/// Adds DIR, which is optional. The old spelling, --path DIR, still works but is not shown.
void add_bench_directory(Command& command, std::string& directory, const char* help);

/// Returns the error with advice on what to do appended. One line.
Status with_advice(const Status& status);

}  // namespace stoker::cli
