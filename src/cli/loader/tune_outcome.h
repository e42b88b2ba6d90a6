/// \file
/// What `stoker tune` has measured, and what it makes of it.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "bench/paired_trials.h"
#include "io/files/cache_policy.h"
#include "stoker/status.h"

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
  double page_cache_share = 0;  ///< Of the bytes of its runs, the most of any step.
};

struct TuneReport {
  std::vector<TuneRow> rows;  ///< In the order tried; automatic is the first.
  TuneSetting best;           ///< The fastest of the rows.
  /// The two measured again, in turns, fresh: the fastest of many is always partly the luckiest.
  std::vector<double> automatic_again;
  std::vector<double> best_again;
  PairedVerdict verdict;
  TuneSetting recommended;  ///< See recommend().
  std::size_t run_count = 0;
  nanoseconds elapsed{0};
  bool is_cold = false;       ///< The shards were evicted before each run.
  bool is_cut_short = false;  ///< The time was over before everything had been tried.
};

/// The largest share of a run's bytes that came from the page cache, of all settings.
double most_from_page_cache(const TuneReport& report) noexcept;

/// Whether runs that were meant to be cold were not: evicting does not work everywhere (tmpfs), and
/// a run that goes through a small dataset twice has it in the page cache the second time.
bool is_warm_after_all(const TuneReport& report) noexcept;

/// `best` if the verdict is clear and figures meant to be cold were; else automatic.
TuneSetting recommend(const TuneReport& report) noexcept;

}  // namespace stoker::cli
