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
#include "stoker/store.h"

namespace stoker {

/// Notified of each stretch when it ends.
class StretchSink {
 public:
  virtual ~StretchSink() = default;
  /// `bytes` are the requested bytes, in their place in memory.
  virtual void stretch_done(const FetchPlan::Stretch& stretch, std::span<std::byte> bytes) = 0;
  virtual void stretch_failed(const FetchPlan::Stretch& stretch, const Status& status) = 0;
};

/// Reads stretches: those in the page cache on the calling thread, others of local files through an
/// engine, and those of other stores through one source per store, one store after the other.
/// Engines and sources are made when first needed. While they work, the calling thread reads from
/// the page cache and passes completed stretches to the sink.
///
/// Thread safety: none, except that counters() may be read from any thread.
class StretchReader final : private RangeFeed {
 public:
  struct Options {
    EngineKind engine = EngineKind::automatic;
    EngineOptions engine_options = {};
    std::uint32_t piece_bytes = 0;
  };

  /// The memory that stretches are read into: batched stretches (FetchPlan::is_batched()) into
  /// `memory`, the others into `packed`.
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
    Counter wait_ns;        // for devices
    Counter store_wait_ns;  // for stores
  };

  StretchReader(FetchShards& shards, const Options& options) : shards_(shards), options_(options) {}

  /// Reads all stretches except those of Way::inflated, and notifies `sink` of each. Fails if
  /// reading cannot continue; `cancelled` if `stop` fires. When it returns, nothing is in flight.
  Status read(std::span<const FetchPlan::Stretch> stretches, const Places& places,
              StretchSink& sink, const std::stop_token& stop);

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
  ObjectStore& store_of(const FetchPlan::Stretch& stretch) const {
    return shards_.dataset(stretch.dataset).sample_store();
  }
  Status read_cold_stretches(std::optional<RangeReader>& reader, Counter& wait_ns);
  Status read_store_stretches();
  Status read_warm_stretches(StretchSink& sink, const std::stop_token& stop);
  Status read_warm(const FetchPlan::Stretch& stretch, StretchSink& sink,
                   const std::stop_token& stop);
  Result<ReadPlan> plan_of(const FetchPlan::Stretch& stretch);
  bool has_room_for(const FetchPlan::Stretch& stretch) {
    return shards_.has_room_for(stretch.dataset, stretch.shard);
  }
  std::int64_t transfer(const Request& request) const;
  void count(const FetchPlan::Stretch& stretch, std::size_t size_bytes, std::size_t piece_bytes);

  // RangeFeed: gives the reader the stretches of `cold_`; a request's tag is the number of its
  // stretch.
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
  std::span<const FetchPlan::Stretch> stretches_;
  Places places_;
  StretchSink* sink_ = nullptr;
  std::stop_token stop_;
  std::vector<std::uint32_t> cold_;  // stretches that the engine or a source reads
  std::vector<std::uint32_t> far_;   // stretches of other stores
  std::vector<std::uint32_t> warm_;  // stretches in the page cache
  std::size_t next_cold_ = 0;
  std::size_t next_warm_ = 0;
};

}  // namespace stoker
