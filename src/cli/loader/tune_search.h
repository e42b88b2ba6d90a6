/// \file
/// The search of `stoker tune`: short measured runs of the loader, alternating between settings.
#pragma once

#include <cstddef>

#include "cli/loader/loader_arguments.h"
#include "cli/loader/tune_outcome.h"

namespace stoker::cli {

struct TuneOptions {
  nanoseconds time{20'000'000'000};
  bool cold = false;  ///< Evict the shards before each run.
  std::size_t threads_max = 1;
};

/// 1. Policies, with everything else automatic. 2. Threads, with the fastest policy. 3. Depth, with
/// the fastest number of threads. Each step measures its candidates in turns, several times, and
/// its winner must beat the previous setting by 2 %. 4. The result and automatic in turns, each
/// with one loader for all its runs, so that automatic keeps what it has learned.
///
/// `cancelled` if the user interrupts. `plan` is the plan with automatic settings.
Result<TuneReport> search_settings(const LoaderArguments& arguments, const PlannedRun& plan,
                                   const TuneOptions& options, Context& context);

}  // namespace stoker::cli
