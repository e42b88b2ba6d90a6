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

/// Told of each run as it ends.
class RunSink {
 public:
  virtual ~RunSink() = default;
  /// `bytes` are those asked for, in their room.
  virtual void run_done(const FetchPlan::Run& run, std::span<std::byte> bytes) = 0;
  virtual void run_failed(const FetchPlan::Run& run, const Status& status) = 0;
};

/// Reads runs: those that the page cache holds on the calling thread, others of local files through
/// an engine, and those of other stores through a source of each, one store after the other.
/// Engines and sources are made when they are first needed. While they work, the thread reads the
/// page cache and the sink looks at what has come.
///
/// Thread safety: none, but the counters from any thread.
class RunReader final : private RangeFeed {
 public:
  struct Options {
    EngineKind engine = EngineKind::automatic;
    EngineOptions engine_options = {};
    std::uint32_t piece_bytes = 0;
  };

  /// Where runs have their rooms: those of FetchPlan::is_batched() in `memory`, the others in
  /// `packed`.
  struct Places {
    std::span<std::byte> memory;
    std::span<std::byte> packed;
  };

  /// What was read, by the way and the path it came.
  struct Counters {
    Counter page_cache_reads, page_cache_bytes;
    Counter buffered_reads, buffered_bytes;
    Counter direct_reads, direct_bytes;
    Counter drop_behind_reads, drop_behind_bytes;
    Counter store_reads, store_bytes;
    Counter wait_ns;
  };

  RunReader(FetchShards& shards, const Options& options) : shards_(shards), options_(options) {}

  /// Reads all runs but those of Way::inflated, which are left alone, and tells `sink` of each.
  /// Fails when nothing can go on; `cancelled` if `stop` fires. However it ends, nothing is in
  /// flight any more.
  Status read(std::span<const FetchPlan::Run> runs, const Places& places, RunSink& sink,
              const std::stop_token& stop);

  Status register_memory(std::span<std::byte> memory);
  const Counters& counters() const noexcept { return counters_; }

 private:
  /// What reads the ranges of one store's objects.
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

  // The runs that the device brings, for the reader: their tags are their numbers.
  Next next(ReadPlan& plan) override;
  Status came(const ReadPlan& plan, const Result<std::span<std::byte>>& bytes) override;
  void dropped(const ReadPlan& plan) override;
  Result<bool> work_meanwhile() override;

  FetchShards& shards_;
  const Options options_;
  Engine* engine_ = nullptr;  // the reader's
  std::optional<RangeReader> reader_;
  std::vector<StoreReader> store_readers_;
  Counters counters_;

  // Of the read that goes on; the vectors are kept for their memory.
  std::span<const FetchPlan::Run> runs_;
  Places places_;
  RunSink* sink_ = nullptr;
  std::stop_token stop_;
  std::vector<std::uint32_t> cold_;  // runs that the engine or a source reads now
  std::vector<std::uint32_t> far_;   // runs of other stores
  std::vector<std::uint32_t> warm_;  // runs that the page cache holds
  std::size_t next_cold_ = 0;
  std::size_t next_warm_ = 0;
};

}  // namespace stoker
