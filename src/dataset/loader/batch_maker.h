/// \file
/// What one of the loader's threads does with a batch: find its samples, read them, make columns.
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

/// Makes one batch after the other, each in two steps with the leases in between:
///   1. plan(): which samples, and how much memory they take
///   2. fill(): read and convert, into the leases that the batch now has
///
/// Thread safety: none, but counters() from any thread. Made, used and destroyed by one thread.
class BatchMaker {
 public:
  virtual ~BatchMaker() = default;

  /// Begins batch `number` in `out`, which is clear.
  virtual Result<LoaderPlan::BatchMemory> plan(std::uint64_t number, BatchData& out) = 0;

  /// Likewise, of the samples that `out` has already, without blocks.
  virtual Result<LoaderPlan::BatchMemory> plan_samples(BatchData& out) = 0;

  /// Reads and converts. The first failure in the order of the samples is the batch's, with shard,
  /// offset, key and field; under OnError::skip, that of a sample without a replacement.
  virtual Status fill(BatchData& out, const std::stop_token& stop) = 0;

  /// Work for later batches, once this one has been handed over. `cancelled` if `stop` fires.
  virtual Status work_ahead(const std::stop_token& /*stop*/) { return {}; }

  virtual FetchCounters counters() const = 0;
};

/// `plan` outlives it, and so does `blocks`, which may be null.
Result<std::unique_ptr<BatchMaker>> make_sample_batches(const LoaderPlan& plan, BlockStore* blocks);
Result<std::unique_ptr<BatchMaker>> make_token_batches(const LoaderPlan& plan);
inline Result<std::unique_ptr<BatchMaker>> make_batches(const LoaderPlan& plan,
                                                        BlockStore* blocks) {
  return plan.is_tokens() ? make_token_batches(plan) : make_sample_batches(plan, blocks);
}

/// Samples tried in place of one that fails.
inline constexpr std::uint64_t kReplacementTries = 16;

/// The sample that stands for the one at (epoch, position) at its `attempt`-th try, of `count`. A
/// function of these numbers alone: every run and rank chooses alike.
std::uint64_t replacement_sample(std::uint64_t seed, std::uint64_t epoch, std::uint64_t position,
                                 std::uint64_t attempt, std::uint64_t count) noexcept;

/// `failure` of a sample for which none of the replacements would do either.
Status no_replacement(const Status& failure, const Status& last);

}  // namespace stoker::internal
