#include "dataset/fetch/record_fetch.h"

#include <algorithm>
#include <limits>

#include "base/fork_guard.h"
#include "dataset/fetch/fetch_delivery.h"
#include "dataset/fetch/fetch_planner.h"
#include "dataset/fetch/fetch_shards.h"
#include "dataset/fetch/stretch_reader.h"
#include "io/engine/buffer_pool.h"

namespace stoker {
namespace {

FetchPlanner::Options planner_options(const FetchOptions& options) {
  return {.gap_bytes = options.gap_bytes, .piece_bytes = options.piece_bytes};
}

bool is_aligned(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % BufferPool::kAlignBytes == 0;
}

nanoseconds time_of(const Counter& counter) {
  return nanoseconds(static_cast<std::int64_t>(counter.value()));
}

/// Adds its lifetime to a counter.
class Timed {
 public:
  explicit Timed(Counter& counter) : counter_(counter) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() { counter_.add(static_cast<std::uint64_t>((Clock::now() - begin_).count())); }

 private:
  Counter& counter_;
  const Deadline begin_ = Clock::now();
};

}  // namespace

/// The parts of a fetcher, in the order in which a sample passes through them.
struct RecordFetcher::Parts {
  Parts(std::vector<std::shared_ptr<const ShardDataset>> datasets, const FetchOptions& options)
      : shards(std::move(datasets), {.look_after_bytes = options.look_after_bytes,
                                     .open_files_max = options.open_files_max}),
        planner(shards, planner_options(options)),
        reader(shards, {.engine = options.engine,
                        .engine_options = options.engine_options,
                        .piece_bytes = options.piece_bytes}),
        delivery(shards, reader, options.checksums) {}

  Status read(const FetchPlan& plan, const FetchDelivery::Target& target,
              const std::stop_token& stop) {
    STOKER_TRY(made_here.check("this fetcher"));
    if (target.memory.size() < plan.memory_bytes ||
        (plan.memory_bytes > 0 && !is_aligned(target.memory.data())))
      return Status(Code::invalid_argument,
                    "read: the plan needs " + std::to_string(plan.memory_bytes) +
                        " bytes of memory aligned to " + std::to_string(BufferPool::kAlignBytes));
    const Timed timed(read_ns);
    return delivery.read(plan, target, stop);
  }

  const ForkGuard made_here;
  FetchShards shards;
  FetchPlanner planner;
  StretchReader reader;
  FetchDelivery delivery;
  Counter plan_ns, read_ns;
};

RecordFetcher::RecordFetcher(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RecordFetcher::~RecordFetcher() = default;

Result<std::unique_ptr<RecordFetcher>> RecordFetcher::make(
    std::vector<std::shared_ptr<const ShardDataset>> datasets, const FetchOptions& options) {
  if (datasets.empty() || datasets.size() > std::numeric_limits<std::uint32_t>::max())
    return Status(Code::invalid_argument, "a fetcher needs a dataset");
  if (options.piece_bytes == 0 || options.piece_bytes % BufferPool::kAlignBytes != 0)
    return Status(Code::invalid_argument, "piece_bytes must be a positive multiple of 4096");
  if (options.open_files_max == 0)
    return Status(Code::invalid_argument, "open_files_max must be at least 1");
  return std::unique_ptr<RecordFetcher>(
      new RecordFetcher(std::make_unique<Parts>(std::move(datasets), options)));
}

std::uint64_t RecordFetcher::memory_bytes_max(const ShardDataset& dataset, std::uint64_t count,
                                              const FetchOptions& options) {
  return rows_memory_bytes_max(dataset.index().worst_case_bytes(count), count, options);
}

std::uint64_t RecordFetcher::rows_memory_bytes_max(std::uint64_t row_bytes,
                                                   std::uint64_t piece_count,
                                                   const FetchOptions& options) {
  const std::uint64_t each = FetchPlanner::room_overhead_bytes(planner_options(options));
  std::uint64_t overhead = 0;
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(piece_count, each, &overhead) ||
      __builtin_add_overflow(row_bytes, overhead, &total))
    return std::numeric_limits<std::uint64_t>::max();
  return total;
}

Status RecordFetcher::plan(std::span<const SampleRef> samples, FetchPlan& out) {
  STOKER_TRY(parts_->made_here.check("this fetcher"));
  const Timed timed(parts_->plan_ns);
  return parts_->planner.plan(samples, out);
}

Status RecordFetcher::plan_rows(std::span<const RowPiece> pieces, std::uint64_t row_bytes,
                                std::size_t row_count, FetchPlan& out) {
  STOKER_TRY(parts_->made_here.check("this fetcher"));
  const Timed timed(parts_->plan_ns);
  return parts_->planner.plan_rows(pieces, row_bytes, row_count, out);
}

Status RecordFetcher::read(const FetchPlan& plan, std::span<std::byte> memory,
                           std::span<FetchedRecord> out, const std::stop_token& stop) {
  if (plan.is_rows_ || out.size() < plan.record_count())
    return Status(Code::invalid_argument, "read: the plan is for rows, or `out` is too small");
  return parts_->read(plan, {.memory = memory, .records = out}, stop);
}

Status RecordFetcher::read_rows(const FetchPlan& plan, std::span<std::byte> memory,
                                std::span<std::byte> rows, std::span<Status> out,
                                const std::stop_token& stop) {
  if (!plan.is_rows_ || rows.size() < plan.row_bytes_ || out.size() < plan.record_count())
    return Status(Code::invalid_argument,
                  "read_rows: the plan is for records, or `rows` or `out` is too small");
  std::fill_n(out.begin(), plan.record_count(), Status());
  return parts_->read(plan, {.memory = memory, .rows = rows, .row_status = out}, stop);
}

Status RecordFetcher::register_memory(std::span<std::byte> memory) {
  STOKER_TRY(parts_->made_here.check("this fetcher"));
  return parts_->reader.register_memory(memory);
}

FetchCounters RecordFetcher::counters() const {
  const FetchDelivery::Counters& had = parts_->delivery.counters();
  const StretchReader::Counters& read = parts_->reader.counters();
  return {.record_count = had.record_count.value(),
          .record_bytes = had.record_bytes.value(),
          .failure_count = had.failure_count.value(),
          .checked_bytes = had.checked_bytes.value(),
          .page_cache_reads = read.page_cache_reads.value(),
          .page_cache_bytes = read.page_cache_bytes.value(),
          .buffered_reads = read.buffered_reads.value(),
          .buffered_bytes = read.buffered_bytes.value(),
          .direct_reads = read.direct_reads.value(),
          .direct_bytes = read.direct_bytes.value(),
          .drop_behind_reads = read.drop_behind_reads.value(),
          .drop_behind_bytes = read.drop_behind_bytes.value(),
          .store_reads = read.store_reads.value(),
          .store_bytes = read.store_bytes.value(),
          .inflated_bytes = had.inflated_bytes.value(),
          .residency_looks = parts_->shards.looks(),
          .plan_time = time_of(parts_->plan_ns),
          .read_time = time_of(parts_->read_ns),
          .wait_time = time_of(read.wait_ns) + time_of(read.store_wait_ns),
          .store_time = time_of(read.store_wait_ns)};
}

}  // namespace stoker
