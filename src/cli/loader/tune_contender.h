#pragma once

#include <memory>
#include <optional>
#include <stop_token>

#include "cli/loader/tune_search.h"

namespace stoker::cli {

/// One setting to measure: a loader without end, and its rates.
///
/// Thread safety: none.
class Contender {
 public:
  /// `plan` outlives the contender, and has the setting's policy.
  Contender(const PlannedRun& plan, const TuneSetting& setting) : plan_(plan) {
    row_.setting = setting;
  }

  /// Takes batches for about `slice`. The first quarter is not counted, nor are batches that were
  /// ready before. Adds a rate to the row. A failure of the loader is stored in the row, and OK is
  /// returned. `cancelled` when `stop` fires; `unavailable` when `limit` passes first.
  Status measure(nanoseconds slice, Deadline limit, const std::stop_token& stop);

  /// Ends the loader; the next measurement continues at its position.
  void rest() { loader_.reset(); }

  bool is_possible() const noexcept { return row_.failure.ok(); }
  const TuneRow& row() const noexcept { return row_; }

 private:
  Status start();
  Status take(nanoseconds slice, Deadline limit, const std::stop_token& stop);

  const PlannedRun& plan_;
  TuneRow row_;
  std::unique_ptr<LoaderRun> loader_;
  std::optional<Cursor> at_;
};

}  // namespace stoker::cli
