/// \file
/// RecordFetcher: brings the records of many samples into memory at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/order/sample_ref.h"
#include "io/engine/engine.h"
#include "stoker/status.h"

namespace stoker {

struct FetchOptions {
  /// Who reads what the page cache does not have. The cache policy is each dataset's own.
  EngineKind engine = EngineKind::automatic;
  /// Requests in flight over all files of a batch, and for tests `tamper`, which sees the reads of
  /// the page cache as well.
  EngineOptions engine_options = {.depth = 128};
  /// Compare records with the index's checksums, where it has them.
  bool checksums = true;
  /// Records closer together than this are read from the device at once, and the gap with them.
  std::uint32_t gap_bytes = 16 << 10;
  /// The most that one request to the device asks for: a larger record takes several, in parallel.
  std::uint32_t piece_bytes = 2 << 20;
  /// Bytes read of a shard before its residency is looked at as a whole; until then, and where the
  /// page cache holds a part of it, each record is looked at.
  std::uint64_t look_after_bytes = 4 << 20;
  /// Files this fetcher keeps open beside those that the dataset does, at most: fewer where the
  /// process has few descriptors left.
  std::size_t open_files_max = 32;
};

/// Brings records of samples into memory: locates them in the mapped index, sorts them by place,
/// merges neighbours, and reads each by the way that is fastest for it. What the page cache holds
/// is read by the calling thread; the rest comes from the device through an engine of its own, past
/// the page cache where that pays, with many requests in flight. Compressed shards come out of the
/// dataset's cache of inflated ones.
///
/// It remembers for each shard whether the page cache has it, and looks again now and then. In the
/// steady state nothing is allocated and no lock is taken for a sample.
///
/// Thread safety: none, but counters() from any thread. One thread calls all else, the destructor
/// included: make one fetcher for each. In a forked child plan() and read() answer `unsupported`,
/// and the destructor does nothing but close.
class RecordFetcher {
 public:
  /// `invalid_argument` without datasets, or for options that make no sense.
  static Result<std::unique_ptr<RecordFetcher>> make(
      std::vector<std::shared_ptr<const Dataset>> datasets, const FetchOptions& options);
  RecordFetcher(const RecordFetcher&) = delete;
  RecordFetcher& operator=(const RecordFetcher&) = delete;
  ~RecordFetcher();

  /// What a plan of `count` samples of this dataset needs at most, whichever they are, in constant
  /// time: for budgets. A batch of a mixture takes no more than the sum over what may come of each.
  static std::uint64_t memory_bytes_max(const Dataset& dataset, std::uint64_t count,
                                        const FetchOptions& options);
  /// The same for plan_rows(): `piece_count` pieces of `row_bytes` together.
  static std::uint64_t rows_memory_bytes_max(std::uint64_t row_bytes, std::uint64_t piece_count,
                                             const FetchOptions& options);

  /// Locates the samples (in any order, repeated or not), chooses the way for each, merges
  /// neighbours, and says how much memory all of it takes: `out.memory_bytes`. Samples that cannot
  /// be located, or whose shard cannot be opened, fail in read(), each for itself.
  /// `invalid_argument` for a sample or dataset that does not exist.
  Status plan(std::span<const SampleRef> samples, FetchPlan& out);

  /// Reads what plan() planned into `memory`, at least `plan.memory_bytes` long and aligned to
  /// 4096. `out[i]` is the i-th sample's record: bytes inside `memory`, which repeated samples
  /// share, or its own Status, as Dataset::read() words it: `corrupt` names shard, offset and
  /// sample. Bytes of `memory` outside the plan are not touched, and none are once it has returned.
  ///
  /// The call itself fails when nothing can go on: `cancelled` if `stop` fires, an engine that
  /// cannot be made. `out` then says nothing. A plan may be read again.
  Status read(const FetchPlan& plan, std::span<std::byte> memory, std::span<FetchedRecord> out,
              const std::stop_token& stop = {});

  /// The same for parts of shards that belong in an array: `rows` are `row_bytes` together, and
  /// every piece lies in them. `out.memory_bytes` is the room for what needs alignment or comes in
  /// merged reads; where everything is in the page cache it is 0. Shards are those of the dataset,
  /// and ranges inside them (`invalid_argument`). Pieces that have a checksum are compared with it,
  /// under FetchOptions::checksums.
  Status plan_rows(std::span<const RowPiece> pieces, std::uint64_t row_bytes, std::size_t row_count,
                   FetchPlan& out);

  /// Reads what plan_rows() planned: straight into `rows` where the page cache has it, otherwise by
  /// way of `memory`. `out` has one Status for each row: that of the first of its pieces that could
  /// not be read. Bytes of `rows` that no piece covers are not touched.
  Status read_rows(const FetchPlan& plan, std::span<std::byte> memory, std::span<std::byte> rows,
                   std::span<Status> out, const std::stop_token& stop = {});

  /// Pins `memory`, from which the memory of reads will be taken, for this fetcher's engine: see
  /// Engine::register_buffers(), whose refusals it passes on; the caller goes on without. To be
  /// called before the first read, by the thread that reads.
  Status register_memory(std::span<std::byte> memory);

  /// Any thread.
  FetchCounters counters() const;

 private:
  struct Parts;
  explicit RecordFetcher(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace stoker
