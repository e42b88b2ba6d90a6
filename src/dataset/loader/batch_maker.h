/// \file
/// How a loader thread makes a batch: finds its samples, reads them, makes columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "dataset/batch/batch_data.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/loader/block_store.h"
#include "dataset/loader/loader_plan.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Makes one batch after the other, each in two steps; the caller leases memory in between:
///   1. plan(): finds the samples and how much memory they need
///   2. fill(): reads and converts them into the batch's leases
///
/// Thread safety: counters() from any thread; otherwise made, used and destroyed by one thread.
class BatchMaker {
 public:
  virtual ~BatchMaker() = default;

  /// Starts batch `number` in `out`, which must be clear.
  virtual Result<LoaderPlan::BatchMemory> plan(std::uint64_t number, BatchData& out) = 0;

  /// The same for the samples that `out` already has, without blocks.
  virtual Result<LoaderPlan::BatchMemory> plan_samples(BatchData& out) = 0;

  /// Reads and converts. Returns the first failure in sample order, with shard, offset, key and
  /// field; under OnError::skip, the first failure of a sample that could not be replaced.
  virtual Status fill(BatchData& out, const std::stop_token& stop) = 0;

  /// Does work for later batches, after this one was handed over. `cancelled` if `stop` fires.
  virtual Status work_ahead(const std::stop_token& /*stop*/) { return {}; }

  virtual FetchCounters counters() const = 0;
};

/// `plan` and `blocks` must outlive the result; `blocks` may be null.
Result<std::unique_ptr<BatchMaker>> make_sample_batches(const LoaderPlan& plan, BlockStore* blocks);
Result<std::unique_ptr<BatchMaker>> make_token_batches(const LoaderPlan& plan);
inline Result<std::unique_ptr<BatchMaker>> make_batches(const LoaderPlan& plan,
                                                        BlockStore* blocks) {
  return plan.is_tokens() ? make_token_batches(plan) : make_sample_batches(plan, blocks);
}

/// Number of samples tried as replacement for one that fails.
inline constexpr std::uint64_t kReplacementTries = 16;

/// Returns the sample, below `count`, that replaces the one at (epoch, position) at the
/// `attempt`-th try. Depends on these numbers only: every run and rank chooses the same.
std::uint64_t replacement_sample(std::uint64_t seed, std::uint64_t epoch, std::uint64_t position,
                                 std::uint64_t attempt, std::uint64_t count) noexcept;

/// Returns `failure`, extended: none of the replacements could be used, the last one because of
/// `last`.
Status no_replacement(const Status& failure, const Status& last);

}  // namespace stoker::internal
