/// \file
/// The implementation of a LoaderRun: its memory, its threads, its counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "dataset/batch/batch_data.h"
#include "dataset/loader/batch_maker.h"
#include "dataset/loader/batch_queue.h"
#include "dataset/loader/block_store.h"
#include "dataset/loader/loader_plan.h"
#include "dataset/loader/loader_run.h"
#include "dataset/loader/loader_tuner.h"
#include "dataset/shard_cache/order_forecast.h"
#include "io/engine/buffer_pool.h"

namespace stoker {

/// Each thread repeats, until there are no more numbers:
///   1. takes the number of the next batch
///   2. plans it: which samples, and how much memory
///   3. waits for its turn, leases the memory, passes the turn on
///   4. reads and converts
///   5. hands the batch over
///   6. if the order has blocks, reads ahead for later batches
///
/// Allocated on the heap, so that a forked child can leak it instead of destroying it.
///
/// Thread safety: as LoaderRun.
class LoaderRun::Threads {
 public:
  struct Memory {
    BufferPool pool;                   ///< For batches.
    std::optional<BufferPool> arrays;  ///< For their arrays, if these are apart.
    std::optional<BufferPool> blocks;  ///< For whole blocks, if there are any and room for them.
  };
  Threads(internal::LoaderPlan plan, Memory memory, const internal::LoaderTuner::Options& tuning);
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { stop(); }  // the jthreads join

  Status start_threads();
  NextBatch next(Deadline deadline);
  void stop() noexcept;
  LoaderStats stats() const;

  const ForkGuard& made_here() const noexcept { return made_here_; }
  const internal::LoaderPlan& plan() const noexcept { return plan_; }

 private:
  struct Registered;

  void work(std::size_t worker);
  Status work_until_stopped(std::size_t worker);
  Status make_batch(std::uint64_t number, internal::BatchMaker& maker, internal::BatchData& out);
  Status lease(std::uint64_t number, const internal::LoaderPlan::BatchMemory& memory,
               internal::BatchData& out);
  Status lease_one(std::uint64_t number, BufferPool& pool, std::size_t size_bytes, Lease& out);
  std::size_t budget_bytes() const noexcept;
  std::size_t leased_bytes() const;
  void count(const internal::BatchQueue::Taken& taken);
  Status held_status() const;

  const ForkGuard made_here_;
  const internal::LoaderPlan plan_;
  const std::size_t threads_max_;
  BufferPool pool_;
  std::optional<BufferPool> arrays_;
  std::optional<internal::BlockStore> blocks_;
  const std::shared_ptr<internal::BatchShelf> shelf_;
  internal::BatchQueue hand_over_;
  std::stop_source stop_source_;
  const std::shared_ptr<OrderProgress> progress_;  ///< For the cache; null without one.

  mutable Mutex stats_mutex_;
  LoaderStats counted_ STOKER_GUARDED_BY(stats_mutex_);  ///< The simple counters.
  Histogram wait_ STOKER_GUARDED_BY(stats_mutex_);
  std::optional<Deadline> first_call_ STOKER_GUARDED_BY(stats_mutex_);
  Deadline last_batch_ STOKER_GUARDED_BY(stats_mutex_){};
  internal::LoaderTuner tuner_ STOKER_GUARDED_BY(stats_mutex_);

  mutable Mutex makers_mutex_;
  std::vector<const internal::BatchMaker*> makers_ STOKER_GUARDED_BY(makers_mutex_);
  FetchCounters ended_ STOKER_GUARDED_BY(makers_mutex_);  ///< Of makers that were destroyed.

  std::vector<std::jthread> threads_;  // last: the threads use the members above
};

}  // namespace stoker
