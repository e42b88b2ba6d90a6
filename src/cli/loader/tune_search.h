/// \file
/// The search of `stoker tune`: short measured runs of the loader, in turns.
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

/// 1. Policies, with all else automatic. 2. Threads, with the fastest policy. 3. Depth, with the
/// fastest number of threads. Each step takes its candidates in turns, several times; a step is
/// taken only where it beats what was there by 2 %. 4. The outcome and automatic in turns, each of
/// them one loader that lives through all its runs, so that automatic keeps what it has found.
///
/// `cancelled` when the user stopped it; `plan` is that of automatic.
Result<TuneReport> search_settings(const LoaderArguments& arguments, const PlannedRun& plan,
                                   const TuneOptions& options, Context& context);

}  // namespace stoker::cli
