#include "dataset/loader/loader_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "dataset/loader/loader_threads.h"

namespace stoker {
namespace {

constexpr std::size_t kThreadsMax = 16;
constexpr std::size_t kThreadsByHandMax = 256;
constexpr std::size_t kDepthMax = 64;
constexpr std::size_t kDepthByHandMax = 4096;

constexpr std::size_t kUnitBytes = std::size_t{2} << 20;  // what a pool rounds up to

std::size_t whole_units(std::size_t size_bytes) {
  return (size_bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
}

std::size_t core_count() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, kThreadsMax);
}

Result<internal::LoaderTuner::Options> tuning_of(const LoaderRunOptions& options) {
  if (options.threads > kThreadsByHandMax || options.depth > kDepthByHandMax)
    return Status(Code::invalid_argument,
                  fmt::format("{} threads and a depth of {}: at most {} and {} are possible",
                              options.threads, options.depth, kThreadsByHandMax, kDepthByHandMax));
  const std::size_t depth_max = options.depth != 0 ? options.depth : kDepthMax;
  std::size_t threads_max = options.threads != 0 ? options.threads : core_count();
  threads_max = std::min(threads_max, depth_max);  // more threads would be idle
  return internal::LoaderTuner::Options{.threads = std::min(options.threads, threads_max),
                                        .depth = options.depth,
                                        .threads_max = threads_max,
                                        .depth_max = depth_max};
}

/// The memory for whole blocks, out of the `spare_bytes` that batches do not need: 0 if not even
/// one block fits. Blocks have a pool of their own, because in a shared one they could leave only
/// holes that are too small for batches.
std::size_t block_memory(const internal::LoaderPlan& plan, std::size_t spare_bytes) {
  if (plan.is_tokens() || plan.datasets->size() != 1) return 0;
  const auto shape = plan.options.order->lane_shape();
  if (!shape || shape->lane_positions == 0) return 0;
  const std::size_t most = spare_bytes / 4 * 3 / kUnitBytes * kUnitBytes;
  const std::uint64_t one = RecordFetcher::memory_bytes_max(
      *plan.datasets->front(), shape->block_samples, plan.options.fetch);
  return one <= most ? most : 0;
}

/// The memory for the arrays of batches, if it is allocated apart, out of all that batches have:
/// their share of it, at least three batches, at most what depth_max + 2 batches can use.
std::size_t array_memory(const internal::LoaderPlan& plan, std::size_t batches_bytes,
                         std::size_t depth_max) {
  constexpr std::size_t kEnoughBytes = std::size_t{1} << 30;
  const internal::LoaderPlan::BatchMemory largest = plan.batch_memory_max();
  if (!plan.options.array_memory || largest.arrays_bytes == 0) return 0;
  const std::size_t one = BufferPool::size_class_bytes(largest.arrays_bytes);
  const std::size_t least = 3 * one;
  const std::size_t share = batches_bytes / largest.pooled_bytes() * one;
  return std::max(least, std::min({share, kEnoughBytes, (depth_max + 2) * one}));
}

}  // namespace

LoaderRun::LoaderRun(std::unique_ptr<Threads> run) : run_(std::move(run)) {}

LoaderRun::~LoaderRun() {
  // In a forked child there are no threads to join, and locks may be held forever.
  if (run_ && !run_->made_here().is_here()) static_cast<void>(run_.release());
}

Result<std::size_t> LoaderRun::memory_needed(const LoaderRunOptions& options) {
  STOKER_TRY(tuning_of(options).status());
  STOKER_ASSIGN(const internal::LoaderPlan plan, internal::LoaderPlan::make(options));
  return plan.memory_needed();
}

Result<std::unique_ptr<LoaderRun>> LoaderRun::start(LoaderRunOptions options) {
  STOKER_ASSIGN(const internal::LoaderTuner::Options tuning, tuning_of(options));
  STOKER_ASSIGN(internal::LoaderPlan plan, internal::LoaderPlan::make(std::move(options)));
  const std::size_t needed = plan.memory_needed();
  const std::size_t given = plan.options.memory_bytes;
  if (given < needed)
    return Status(
        Code::invalid_argument,
        fmt::format("memory_bytes is {}, and {} are needed: three batches of {} samples, each of "
                    "them as large as it can get ({} bytes), and the largest sample. Raise "
                    "memory_bytes, lower the batch size, or set a micro-batch size",
                    given, needed, plan.cut.micro_batch_size(),
                    plan.batch_memory_max().pooled_bytes()));
  const std::size_t for_blocks = block_memory(plan, given - needed);
  // The memory is not touched in advance: that would take most of a second and delay a resume. The
  // pool fills its smallest hole first, so a run touches what it needs in its first batches.
  const std::size_t for_arrays = array_memory(plan, given - for_blocks, tuning.depth_max);
  const std::size_t for_others = std::max<std::size_t>(given - for_blocks - for_arrays, 1);
  STOKER_ASSIGN(BufferPool pool, BufferPool::make({.budget_bytes = for_others, .touch = false}));
  std::optional<BufferPool> arrays;
  if (for_arrays > 0) {
    STOKER_ASSIGN(std::unique_ptr<Arena> memory,
                  plan.options.array_memory(whole_units(for_arrays)));
    arrays = BufferPool::make(std::move(memory));
  }
  std::optional<BufferPool> blocks;
  if (for_blocks > 0) {
    STOKER_ASSIGN(blocks, BufferPool::make({.budget_bytes = for_blocks, .touch = false}));
  }
  auto run = std::make_unique<Threads>(
      std::move(plan),
      Threads::Memory{
          .pool = std::move(pool), .arrays = std::move(arrays), .blocks = std::move(blocks)},
      tuning);
  STOKER_TRY(run->start_threads());
  return std::unique_ptr<LoaderRun>(new LoaderRun(std::move(run)));
}

NextBatch LoaderRun::next(Deadline deadline) {
  if (const Status here = run_->made_here().check("this loader"); !here.ok())
    return {.kind = NextBatch::Kind::failed, .status = here};
  return run_->next(deadline);
}

void LoaderRun::stop() noexcept {
  if (run_->made_here().is_here()) run_->stop();
}

std::optional<std::uint64_t> LoaderRun::batch_count() const noexcept {
  return run_->plan().batch_count();
}

LoaderStats LoaderRun::stats() const {
  return run_->made_here().is_here() ? run_->stats() : LoaderStats();
}

}  // namespace stoker
