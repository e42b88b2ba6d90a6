/// \file
/// RecordFetcher: reads the records of many samples into memory at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "dataset/fetch/fetch_plan.h"
#include "dataset/shard_dataset.h"
#include "io/engine/engine.h"
#include "stoker/order.h"
#include "stoker/status.h"

namespace stoker {

struct FetchOptions {
  /// Engine for data that is not in the page cache. The cache policy is set per dataset.
  EngineKind engine = EngineKind::automatic;
  /// `depth`: requests in flight over all files of a batch. `tamper`, for tests, also sees reads of
  /// the page cache.
  EngineOptions engine_options = {.depth = 128};
  /// Verify the index's checksums, if it has them.
  bool checksums = true;
  /// Records closer together than this are read from the device at once, including the gap.
  std::uint32_t gap_bytes = 16 << 10;
  /// Maximum size of one request to the device: a larger record takes several, in parallel.
  std::uint32_t piece_bytes = 2 << 20;
  /// Bytes read of a shard before the page cache is queried for the whole shard; until then, and if
  /// only a part of the shard is cached, it is queried for each record.
  std::uint64_t look_after_bytes = 4 << 20;
  /// Maximum number of files that this fetcher keeps open in addition to those of the dataset;
  /// fewer if the process has few descriptors left.
  std::size_t open_files_max = 32;
};

/// Reads records of samples into memory: locates them in the mapped index, sorts them by place,
/// merges neighbors, and reads each in the fastest way. Data in the page cache is read by the
/// calling thread; the rest is read from the device by the fetcher's own engine, bypassing the page
/// cache where that is faster, with many requests in flight. Records of compressed shards are
/// copied from the dataset's cache of decompressed shards.
///
/// The fetcher remembers for each shard whether it is in the page cache, and checks again now and
/// then. In the steady state a sample needs no allocation and no lock.
///
/// Thread safety: counters() from any thread. All other methods, including the destructor, from one
/// thread: make one fetcher per thread. In a forked child plan() and read() return `unsupported`,
/// and the destructor only closes descriptors.
class RecordFetcher {
 public:
  /// `invalid_argument` if there are no datasets, or for invalid options.
  static Result<std::unique_ptr<RecordFetcher>> make(
      std::vector<std::shared_ptr<const ShardDataset>> datasets, const FetchOptions& options);
  RecordFetcher(const RecordFetcher&) = delete;
  RecordFetcher& operator=(const RecordFetcher&) = delete;
  ~RecordFetcher();

  /// Returns the maximum memory that a plan of any `count` samples of this dataset needs, in
  /// constant time: for budgets. A batch of a mixture needs at most the sum over its datasets.
  static std::uint64_t memory_bytes_max(const ShardDataset& dataset, std::uint64_t count,
                                        const FetchOptions& options);
  /// The same for plan_rows(): `piece_count` pieces with `row_bytes` in total.
  static std::uint64_t rows_memory_bytes_max(std::uint64_t row_bytes, std::uint64_t piece_count,
                                             const FetchOptions& options);

  /// Locates the samples (in any order, possibly repeated), chooses how to read each, merges
  /// neighbors, and sets `out.memory_bytes`. Samples that cannot be located, or whose shard cannot
  /// be opened, fail individually in read(). `invalid_argument` for a sample or dataset that does
  /// not exist.
  Status plan(std::span<const SampleRef> samples, FetchPlan& out);

  /// Executes a plan of plan(): reads into `memory`, which has at least `plan.memory_bytes` and is
  /// aligned to 4096. `out[i]` is the i-th sample's record: bytes inside `memory`, which repeated
  /// samples share, or its own Status, worded as by ShardDataset::read(): `corrupt` names shard,
  /// offset and sample. Bytes of `memory` outside the plan are not written, and none are after the
  /// call returns.
  ///
  /// The call itself fails if reading cannot continue: `cancelled` if `stop` fires, or an engine
  /// that cannot be made. `out` is then unspecified. A plan may be read again.
  Status read(const FetchPlan& plan, std::span<std::byte> memory, std::span<FetchedRecord> out,
              const std::stop_token& stop = {});

  /// The same for parts of shards that belong in an array of rows: the rows have `row_bytes` in
  /// total. `out.memory_bytes` is the memory for aligned and merged reads; 0 if everything is in
  /// the page cache. `invalid_argument` if a piece is outside its shard or outside the rows. Pieces
  /// that have a checksum are verified if FetchOptions::checksums is set.
  Status plan_rows(std::span<const RowPiece> pieces, std::uint64_t row_bytes, std::size_t row_count,
                   FetchPlan& out);

  /// Executes a plan of plan_rows(): reads data in the page cache straight into `rows`, other data
  /// by way of `memory`. `out` has one Status per row: that of its first piece that could not be
  /// read. Bytes of `rows` that no piece covers are not written.
  Status read_rows(const FetchPlan& plan, std::span<std::byte> memory, std::span<std::byte> rows,
                   std::span<Status> out, const std::stop_token& stop = {});

  /// Registers `memory`, which will contain the memory of later reads, with this fetcher's engine:
  /// see Engine::register_buffers(), whose errors it returns; reads then work without registration.
  /// Call it before the first read, on the thread that reads.
  Status register_memory(std::span<std::byte> memory);

  /// May be called from any thread.
  FetchCounters counters() const;

 private:
  struct Parts;
  explicit RecordFetcher(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace stoker
