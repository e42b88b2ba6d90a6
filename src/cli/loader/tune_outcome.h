/// \file
/// The measurements of `stoker tune`, and the conclusion from them.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "bench/paired_trials.h"
#include "io/files/cache_policy.h"
#include "stoker/status.h"

namespace stoker::cli {

/// The settings to search. 0 threads or depth: automatic.
struct TuneSetting {
  CachePolicy policy = CachePolicy::automatic;
  std::size_t threads = 0;
  std::size_t depth = 0;
  bool operator==(const TuneSetting&) const = default;
};

/// The measurements of one setting.
struct TuneRow {
  TuneSetting setting;
  std::vector<double> samples_per_s;  ///< Of each run.
  Status failure = {};                ///< Why there are none, such as direct I/O not supported.
  double bytes_per_sample = 0;
  double page_cache_share = 0;  ///< Share of the bytes; the largest of all search steps.
};

struct TuneReport {
  std::vector<TuneRow> rows;  ///< In the order tried; automatic is first.
  TuneSetting best;           ///< The fastest of the rows.
  /// Both settings measured again, alternating: the fastest of many is always partly luck.
  std::vector<double> automatic_again;
  std::vector<double> best_again;
  PairedVerdict verdict;
  TuneSetting recommended;  ///< See recommend().
  std::size_t run_count = 0;
  nanoseconds elapsed{0};
  bool is_cold = false;       ///< The shards were evicted before each run.
  bool is_cut_short = false;  ///< Time ran out before everything was tried.
};

/// Returns the largest share of bytes from the page cache, over all settings.
double most_from_page_cache(const TuneReport& report) noexcept;

/// Whether runs that should have been cold were not: eviction does not work everywhere (tmpfs), and
/// a run that reads a small dataset twice finds it in the page cache the second time.
bool is_warm_after_all(const TuneReport& report) noexcept;

/// Returns `best` if the verdict is clear and runs that should have been cold were; otherwise
/// automatic.
TuneSetting recommend(const TuneReport& report) noexcept;

}  // namespace stoker::cli
