#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/counters.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/fetch/fetch_shards.h"
#include "io/engine/engine.h"
#include "io/files/file.h"
#include "io/range_reader.h"
#include "stoker/status.h"
#include "store/object_store.h"

namespace stoker {

/// Notified of each run when it ends.
class RunSink {
 public:
  virtual ~RunSink() = default;
  /// `bytes` are the requested bytes, in their place in memory.
  virtual void run_done(const FetchPlan::Run& run, std::span<std::byte> bytes) = 0;
  virtual void run_failed(const FetchPlan::Run& run, const Status& status) = 0;
};

/// Reads runs: those in the page cache on the calling thread, others of local files through an
/// engine, and those of other stores through one source per store, one store after the other.
/// Engines and sources are made when first needed. While they work, the calling thread reads from
/// the page cache and passes completed runs to the sink.
///
/// Thread safety: none, except that counters() may be read from any thread.
class RunReader final : private RangeFeed {
 public:
  struct Options {
    EngineKind engine = EngineKind::automatic;
    EngineOptions engine_options = {};
    std::uint32_t piece_bytes = 0;
  };

  /// The memory that runs are read into: batched runs (FetchPlan::is_batched()) into `memory`, the
  /// others into `packed`.
  struct Places {
    std::span<std::byte> memory;
    std::span<std::byte> packed;
  };

  /// Reads and bytes, by read path.
  struct Counters {
    Counter page_cache_reads, page_cache_bytes;
    Counter buffered_reads, buffered_bytes;
    Counter direct_reads, direct_bytes;
    Counter drop_behind_reads, drop_behind_bytes;
    Counter store_reads, store_bytes;
    Counter wait_ns;
  };

  RunReader(FetchShards& shards, const Options& options) : shards_(shards), options_(options) {}

  /// Reads all runs except those of Way::inflated, and notifies `sink` of each. Fails if reading
  /// cannot continue; `cancelled` if `stop` fires. When it returns, nothing is in flight.
  Status read(std::span<const FetchPlan::Run> runs, const Places& places, RunSink& sink,
              const std::stop_token& stop);

  Status register_memory(std::span<std::byte> memory);
  const Counters& counters() const noexcept { return counters_; }

 private:
  /// The reader for objects of one store.
  struct StoreReader {
    ObjectStore* store;
    std::optional<RangeReader> reader;
  };

  Status start_engine();
  Result<std::optional<RangeReader>*> start_source(ObjectStore& store);
  ObjectStore& store_of(const FetchPlan::Run& run) const {
    return shards_.dataset(run.dataset).source().store();
  }
  Status read_cold_runs(std::optional<RangeReader>& reader);
  Status read_store_runs();
  Status read_warm_runs(RunSink& sink, const std::stop_token& stop);
  Status read_warm(const FetchPlan::Run& run, RunSink& sink, const std::stop_token& stop);
  Result<ReadPlan> plan_of(const FetchPlan::Run& run);
  bool has_room_for(const FetchPlan::Run& run) {
    return shards_.has_room_for(run.dataset, run.shard);
  }
  std::int64_t transfer(const Request& request) const;
  void count(const FetchPlan::Run& run, std::size_t size_bytes, std::size_t piece_bytes);

  // RangeFeed: gives the reader the runs of `cold_`; a request's tag is the number of its run.
  Next next(ReadPlan& plan) override;
  Status came(const ReadPlan& plan, const Result<std::span<std::byte>>& bytes) override;
  void dropped(const ReadPlan& plan) override;
  Result<bool> work_meanwhile() override;

  FetchShards& shards_;
  const Options options_;
  Engine* engine_ = nullptr;  // owned by reader_
  std::optional<RangeReader> reader_;
  std::vector<StoreReader> store_readers_;
  Counters counters_;

  // State of the current read; the vectors are kept to reuse their memory.
  std::span<const FetchPlan::Run> runs_;
  Places places_;
  RunSink* sink_ = nullptr;
  std::stop_token stop_;
  std::vector<std::uint32_t> cold_;  // runs that the engine or a source reads
  std::vector<std::uint32_t> far_;   // runs of other stores
  std::vector<std::uint32_t> warm_;  // runs in the page cache
  std::size_t next_cold_ = 0;
  std::size_t next_warm_ = 0;
};

}  // namespace stoker
