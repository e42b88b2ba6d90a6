/// \file
/// What `stoker stream` and `stoker tune` share: how a loader is described on the command line.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/dataset/dataset_arguments.h"
#include "cli/loader/token_arguments.h"
#include "dataset/loader/loader_setup.h"

namespace stoker::cli {

/// As they were typed.
struct LoaderArguments {
  DatasetArguments dataset;
  TokenArguments tokens;  ///< Of `stream` alone.
  std::uint64_t batch_size = 0;
  std::uint64_t global_batch_size = 0;
  std::string shuffle = "global";
  std::uint64_t seed = 0;
  std::string tail;
  std::uint64_t epochs = 1;  ///< 0: without end.
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::string memory;
  std::string threads = "auto";
  std::string depth = "auto";
  std::string policy = "auto";
  std::string engine;
  double step_ms = 0;
};

/// URI and everything about which samples come when, the memory, and the simulated training step.
void add_loader_arguments(Command& command, LoaderArguments& arguments);
/// --threads, --depth and --policy: what `tune` finds.
void add_loader_settings(Command& command, LoaderArguments& arguments);

/// A run that can be started.
struct PlannedRun {
  std::string name;  ///< What the dataset is called in results.
  std::shared_ptr<const Dataset> dataset;
  TokenRows rows;  ///< In place of its samples, if any.
  LoaderSetup setup;
  LoaderOptions options;  ///< From the beginning, or where resume_at() has set it.
  CachePolicy policy = CachePolicy::automatic;
  nanoseconds step_time{0};  ///< Of the training step that is simulated.
};

/// Checks the arguments, opens the dataset and assembles the loader.
Result<PlannedRun> plan_loader(const LoaderArguments& arguments, Context& context);

/// Lets the run continue from `cursor`. `invalid_argument` begins with "CursorMismatch" and names
/// every difference that `allow` does not.
Status resume_at(PlannedRun& plan, const Cursor& cursor, std::span<const std::string> allow);

/// Samples that this rank has received when its run stands at `cursor`, from the run's beginning.
std::uint64_t samples_before(const PlannedRun& plan, const Cursor& cursor);

/// Waits as for a training step on an accelerator. Ends early when `stop` fires.
void simulate_step(nanoseconds duration, const std::stop_token& stop);

}  // namespace stoker::cli
