/// \file
/// The search of `stoker tune`: short measured runs of the loader, in turns.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/paired_trials.h"
#include "cli/loader_arguments.h"

namespace stoker::cli {

/// What is searched for. 0 threads or depth: automatic.
struct TuneSetting {
  CachePolicy policy = CachePolicy::automatic;
  std::size_t threads = 0;
  std::size_t depth = 0;
  bool operator==(const TuneSetting&) const = default;
};

/// What was measured of one setting.
struct TuneRow {
  TuneSetting setting;
  std::vector<double> samples_per_s;  ///< Of each run.
  Status failure = {};                ///< Why there are none: direct where it is not possible.
  double bytes_per_sample = 0;
  double page_cache_share = 0;
};

struct TuneReport {
  std::vector<TuneRow> rows;  ///< In the order tried; automatic is the first.
  TuneSetting best;           ///< The fastest of the rows.
  /// The two measured again, in turns, fresh: the fastest of many is always partly the luckiest.
  std::vector<double> automatic_again;
  std::vector<double> best_again;
  PairedVerdict verdict;
  /// `best` if the verdict is clear and figures meant to be cold were; else automatic.
  TuneSetting recommended;
  std::size_t run_count = 0;
  nanoseconds elapsed{0};
  bool is_cold = false;       ///< The shards were evicted before each run.
  bool is_cut_short = false;  ///< The time was over before everything had been tried.
};

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
Result<TuneReport> search_settings(const LoaderArguments& arguments, const LoaderPlan& plan,
                                   const TuneOptions& options, Context& context);

}  // namespace stoker::cli
