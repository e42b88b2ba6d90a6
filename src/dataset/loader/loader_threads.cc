#include "dataset/loader/loader_threads.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/exception_status.h"
#include "dataset/loader/loader_cache.h"
#include "dataset/loader/loader_stats.h"

namespace stoker {

using internal::BatchData;
using internal::BatchMaker;
using internal::BatchQueue;
using internal::BatchShelf;
using internal::LoaderPlan;
using Taken = BatchQueue::Taken;

LoaderRun::Threads::Threads(LoaderPlan plan, Memory memory,
                            const internal::LoaderTuner::Options& tuning)
    : plan_(std::move(plan)),
      threads_max_(tuning.threads_max),
      pool_(std::move(memory.pool)),
      arrays_(std::move(memory.arrays)),
      shelf_(std::make_shared<BatchShelf>(tuning.depth_max + 8)),
      hand_over_({.depth_max = tuning.depth_max,
                  .threads_max = tuning.threads_max,
                  .batch_count = plan_.batch_count(),
                  .held_warning = plan_.options.held_warning,
                  .held_limit = plan_.options.held_limit}),
      progress_(internal::announce_to_cache(plan_)),
      tuner_(tuning) {
  if (memory.blocks)
    blocks_.emplace(*plan_.options.order, *std::move(memory.blocks), plan_.options.end_epoch);
  hand_over_.set_limits(tuner_.setting().threads, tuner_.setting().depth);
}

Status LoaderRun::Threads::start_threads() {
  try {
    threads_.reserve(threads_max_);
    for (std::size_t worker = 0; worker < threads_max_; ++worker)
      threads_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& error) {
    stop();
    return Status(
        Code::unavailable,
        fmt::format("cannot start thread {} of the loader: {}", threads_.size(), error.what()),
        error.code().value());
  }
  return {};
}

/// Removes a thread's maker from the list before it is destroyed, however the thread ends.
struct LoaderRun::Threads::Registered {
  Threads& run;
  const std::unique_ptr<BatchMaker>& maker;

  Registered(Threads& owner, const std::unique_ptr<BatchMaker>& mine) : run(owner), maker(mine) {}
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    if (!maker) return;
    MutexLock lock(run.makers_mutex_);
    if (std::erase(run.makers_, maker.get()) > 0) add_counters(run.ended_, maker->counters());
  }
};

void LoaderRun::Threads::work(std::size_t worker) {
  ::pthread_setname_np(::pthread_self(), "stoker-loader");  // shown by top and profilers
  Status status;
  try {
    status = work_until_stopped(worker);
  } catch (...) {  // of a store or decoder of the program, or for lack of memory
    status = internal::status_of_exception();
  }
  // An interruption by stop() is not a failure: the caller gets `stopped`.
  if (!status.ok() && !stop_source_.stop_requested()) hand_over_.fail(std::move(status));
}

Status LoaderRun::Threads::work_until_stopped(std::size_t worker) {
  std::unique_ptr<BatchMaker> maker;
  const Registered registered{*this, maker};
  while (const std::optional<std::uint64_t> number = hand_over_.take_number(worker)) {
    if (!maker) {  // only when there is work: an engine is expensive
      STOKER_ASSIGN(maker, make_batches(plan_, blocks_ ? &*blocks_ : nullptr));
      MutexLock lock(makers_mutex_);
      makers_.push_back(maker.get());
    }
    std::unique_ptr<BatchData> batch = shelf_->take();
    Status status = make_batch(*number, *maker, *batch);
    if (status.ok()) {
      hand_over_.put(*number, std::move(batch));
      STOKER_TRY(maker->work_ahead(stop_source_.get_token()));
    } else {
      shelf_->put(std::move(batch));
      hand_over_.put_failure(*number, std::move(status));
    }
  }
  return {};
}

Status LoaderRun::Threads::make_batch(std::uint64_t number, BatchMaker& maker, BatchData& out) {
  const Result<LoaderPlan::BatchMemory> memory = maker.plan(number, out);
  if (progress_) progress_->began(out.epoch, plan_.cut.next_position(out.position));
  out.times.enter(LoaderStage::memory);
  if (!hand_over_.begin_lease(number)) return Status(Code::cancelled, "the loader was stopped");
  const Status leased = memory.ok() ? lease(number, *memory, out) : memory.status();
  hand_over_.end_lease(number);
  STOKER_TRY(leased);
  const Deadline begun = Clock::now();
  const nanoseconds before = maker.counters().store_time;
  out.times.enter(LoaderStage::store, begun);
  Status filled = maker.fill(out, stop_source_.get_token());
  // The wait for the store comes first, then the rest of the reads.
  out.times.enter(LoaderStage::read, begun + (maker.counters().store_time - before));
  return filled;
}

Status LoaderRun::Threads::lease(std::uint64_t number, const LoaderPlan::BatchMemory& memory,
                                 BatchData& out) {
  if (memory.records_bytes > 0)
    STOKER_TRY(lease_one(number, pool_, memory.records_bytes, out.records));
  if (memory.arrays_bytes > 0)
    STOKER_TRY(lease_one(number, arrays_ ? *arrays_ : pool_, memory.arrays_bytes, out.arrays));
  return {};
}

Status LoaderRun::Threads::lease_one(std::uint64_t number, BufferPool& pool, std::size_t size_bytes,
                                     Lease& out) {
  if (size_bytes <= pool.budget_bytes()) {
    if (Result<Lease> now = pool.try_lease(size_bytes); now.ok()) {
      out = *std::move(now);
      return {};
    }
  }
  hand_over_.waits_for_memory(number);
  STOKER_ASSIGN(out, pool.lease(size_bytes, stop_source_.get_token()));
  return {};
}

NextBatch LoaderRun::Threads::next(Deadline deadline) {
  {
    MutexLock lock(stats_mutex_);
    if (!first_call_) first_call_ = last_batch_ = Clock::now();
  }
  Taken taken = hand_over_.take(deadline);
  count(taken);
  switch (taken.kind) {
    case Taken::Kind::batch:
      return {.kind = NextBatch::Kind::batch,
              .batch = BatchShelf::make_batch(std::move(taken.batch), shelf_)};
    case Taken::Kind::end: return {.kind = NextBatch::Kind::end};
    case Taken::Kind::timeout: return {.kind = NextBatch::Kind::timeout};
    case Taken::Kind::memory_held:
      return {.kind = NextBatch::Kind::memory_held, .status = held_status()};
    case Taken::Kind::stopped:
      return {.kind = NextBatch::Kind::stopped,
              .status = Status(Code::cancelled, "the loader was stopped")};
    case Taken::Kind::failed: break;
  }
  stop();  // nobody needs further batches
  return {.kind = NextBatch::Kind::failed, .status = std::move(taken.status)};
}

void LoaderRun::Threads::count(const Taken& taken) {
  std::optional<internal::LoaderTuner::Setting> changed;
  {
    MutexLock lock(stats_mutex_);
    if (taken.warned) ++counted_.held_warnings;
    if (taken.kind == Taken::Kind::memory_held) ++counted_.held_errors;
    if (taken.kind != Taken::Kind::batch) return;
    const BatchData& batch = *taken.batch;
    if (progress_) progress_->received(batch.cursor.epoch, batch.cursor.position);
    ++counted_.batches;
    counted_.samples += batch.samples.size();
    counted_.bytes += batch.record_bytes;
    counted_.unchecked += batch.unchecked;
    counted_.replaced += batch.replaced;
    counted_.spare_bytes += batch.spare.size_bytes();
    wait_.record(taken.waited);
    counted_.waited += taken.waited;
    const auto stages = attribute_wait(batch.times, taken.now - taken.waited, taken.now);
    for (std::size_t i = 0; i < kLoaderStages; ++i) counted_.waited_in[i] += stages[i];
    if (tuner_.saw(taken.waited, taken.now - last_batch_)) changed = tuner_.setting();
    last_batch_ = taken.now;
    counted_.elapsed = last_batch_ - *first_call_;
  }
  if (changed) hand_over_.set_limits(changed->threads, changed->depth);
}

std::size_t LoaderRun::Threads::budget_bytes() const noexcept {
  return pool_.budget_bytes() + (arrays_ ? arrays_->budget_bytes() : 0);
}

std::size_t LoaderRun::Threads::leased_bytes() const {
  return pool_.leased_bytes() + (arrays_ ? arrays_->leased_bytes() : 0);
}

Status LoaderRun::Threads::held_status() const {
  const std::size_t budget = budget_bytes();
  const std::size_t given = plan_.options.memory_bytes;
  const std::string_view why =
      blocks_ ? ", and blocks that are read whole use a part of it" : ", rounded up to 2 MiB";
  const std::string note =
      budget == given ? "" : fmt::format(" (memory_bytes for this process is {}{})", given, why);
  return Status(
      Code::unavailable,
      fmt::format("no memory for the next batch: the batches that the caller still holds use {} "
                  "of the loader's {} bytes{}. Release each batch before you request the one after "
                  "the next (copy the data you want to keep), or raise memory_bytes; holding one "
                  "batch at a time needs at least {} bytes",
                  leased_bytes(), budget, note, plan_.memory_needed()));
}

void LoaderRun::Threads::stop() noexcept {
  hand_over_.stop();  // first: threads that the token wakes must find the queue stopped
  stop_source_.request_stop();
}

LoaderStats LoaderRun::Threads::stats() const {
  LoaderStats out;
  {
    MutexLock lock(stats_mutex_);
    out = counted_;
    out.wait = wait_.snapshot();
  }
  {
    MutexLock lock(makers_mutex_);
    out.fetch = ended_;
    for (const BatchMaker* maker : makers_) add_counters(out.fetch, maker->counters());
  }
  out.threads = hand_over_.threads();
  out.depth = hand_over_.depth();
  out.memory_bytes = budget_bytes() + (blocks_ ? blocks_->memory_bytes() : 0);
  out.leased_bytes = leased_bytes();
  out.block_bytes = blocks_ ? blocks_->leased_bytes() : 0;
  out.blocks = blocks_ ? blocks_->loaded_count() : 0;
  return out;
}

}  // namespace stoker
