/// \file
/// Shared by `stoker pack` and `stoker convert`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/work_progress.h"
#include "dataset/pack/pack.h"

namespace stoker::cli {

/// The options as they were typed.
struct PackArguments {
  std::string destination;
  std::string staging;  ///< For a destination that is not local.
  std::string format;   ///< Required for a command without a default format.
  std::uint64_t samples_per_shard = 0;
  std::string shard_size;
  unsigned threads = 0;
  std::string shuffle_seed;
  std::string prefix = "shard";
  std::string task;
  bool json = false;
};

/// Adds all options except the destination.
void add_pack_options(Command& command, PackArguments& arguments);

Result<PackOptions> pack_options_from(const PackArguments& arguments, Context& context,
                                      WorkProgress& progress);

/// Parses "0/8": the first of eight.
Status parse_task(const std::string& text, PackOptions& options);

/// Writes the remarks on the report to stderr and the report to stdout.
void write_pack_report(Context& context, const PackReport& report, const std::string& directory,
                       bool json);

}  // namespace stoker::cli
