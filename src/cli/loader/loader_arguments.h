/// \file
/// Shared by `stoker stream` and `stoker tune`: how a loader is described on the command line.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/dataset/cache_arguments.h"
#include "cli/dataset/dataset_arguments.h"
#include "cli/loader/token_arguments.h"
#include "dataset/loader/loader_setup.h"

namespace stoker::cli {

/// The arguments as they were typed.
struct LoaderArguments {
  DatasetArguments dataset;
  TokenArguments tokens;  ///< For `stream` only.
  std::uint64_t batch_size = 0;
  std::uint64_t global_batch_size = 0;
  std::string shuffle = "global";
  std::uint64_t seed = 0;
  std::string tail;
  std::uint64_t epochs = 1;  ///< 0: no end.
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::string memory;
  std::string threads = "auto";
  std::string depth = "auto";
  std::string policy = "auto";
  std::string engine;
  CacheArguments cache;  ///< For `stream` only.
  double step_ms = 0;
};

/// Adds URI and all options on the order of samples, the memory, and the simulated training step.
void add_loader_arguments(Command& command, LoaderArguments& arguments);
/// Adds --threads, --depth and --policy, the settings that `tune` searches.
void add_loader_settings(Command& command, LoaderArguments& arguments);

/// A run that is ready to start.
struct PlannedRun {
  std::string name;  ///< Name of the dataset in results.
  std::shared_ptr<const ShardDataset> dataset;
  TokenRows rows;  ///< Rows of tokens that replace the samples, if any.
  LoaderSetup setup;
  LoaderRunOptions options;  ///< Starts at the beginning, or where resume_at() has set it.
  CachePolicy policy = CachePolicy::automatic;
  nanoseconds step_time{0};  ///< Duration of the simulated training step.
};

/// Checks the arguments, opens the dataset and assembles the loader.
Result<PlannedRun> plan_loader(const LoaderArguments& arguments, Context& context);

/// Makes the run continue from `cursor`. `invalid_argument` begins with "CursorMismatch" and lists
/// every difference that is not in `allow`.
Status resume_at(PlannedRun& plan, const Cursor& cursor, std::span<const std::string> allow);

/// Returns the number of samples that this rank has received between the beginning of the run and
/// `cursor`.
std::uint64_t samples_before(const PlannedRun& plan, const Cursor& cursor);

/// Waits for the duration of a simulated training step. Returns early when `stop` fires.
void simulate_step(nanoseconds duration, const std::stop_token& stop);

}  // namespace stoker::cli
