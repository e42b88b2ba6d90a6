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

void add_bench_checkpoint_command(Command& bench, Context& context);
void add_bench_disk_command(Command& bench, Context& context);
void add_bench_cliff_command(Command& bench, Context& context);

/// DIR, which may be left out. The old spelling, --path DIR, still works and is not shown.
void add_bench_directory(Command& command, std::string& directory, const char* help);

/// The same, with what the user can do about it. One line.
Status with_advice(const Status& status);

}  // namespace stoker::cli
