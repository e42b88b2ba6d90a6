#pragma once

#include <memory>
#include <optional>
#include <stop_token>

#include "cli/loader/tune_search.h"

namespace stoker::cli {

/// One setting that is being measured: a loader without end, and how fast it was.
///
/// Thread safety: none.
class Contender {
 public:
  /// `plan` outlives it, and has the setting's policy.
  Contender(const PlannedRun& plan, const TuneSetting& setting) : plan_(plan) {
    row_.setting = setting;
  }

  /// Takes batches for about `slice`, of which the first quarter is not counted, nor what was ready
  /// before. Adds a rate to the row; a failure of the loader is kept there, and is OK here.
  /// `cancelled` when `stop` fires; `unavailable` when `limit` passes first.
  Status measure(nanoseconds slice, Deadline limit, const std::stop_token& stop);

  /// Ends its loader; the next run goes on where this one stood.
  void rest() { loader_.reset(); }

  bool is_possible() const noexcept { return row_.failure.ok(); }
  const TuneRow& row() const noexcept { return row_; }

 private:
  Status start();
  Status take(nanoseconds slice, Deadline limit, const std::stop_token& stop);

  const PlannedRun& plan_;
  TuneRow row_;
  std::unique_ptr<Loader> loader_;
  std::optional<Cursor> at_;
};

}  // namespace stoker::cli
