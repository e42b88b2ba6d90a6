#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "base/counters.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/fetch/fetch_shards.h"
#include "io/engine/engine.h"
#include "io/files/file.h"
#include "stoker/status.h"

namespace stoker {

/// Told of each run as it ends.
class RunSink {
 public:
  virtual ~RunSink() = default;
  /// `bytes` are those asked for, in their room.
  virtual void run_done(const FetchPlan::Run& run, std::span<std::byte> bytes) = 0;
  virtual void run_failed(const FetchPlan::Run& run, const Status& status) = 0;
};

/// Reads runs: those that the page cache holds on the calling thread, the others through an engine,
/// which is made when it is first needed. While the device works, the thread reads the page cache
/// and the sink looks at what has come.
///
/// Thread safety: none, but the counters from any thread.
class RunReader {
 public:
  struct Options {
    EngineKind engine = EngineKind::automatic;
    EngineOptions engine_options = {};
    std::uint32_t piece_bytes = 0;
  };

  /// Where runs have their rooms: those of Way::engine in `memory`, the others in `packed`.
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
  /// Where a run of the engine stands.
  struct Progress {
    std::uint32_t pieces_left = 0;
    std::int64_t result = 0;  // bytes from the room's begin on that are there, or an errno
    Status failure = {};      // why a part of it could not even be asked for
  };
  /// One request: a part of a run's room.
  struct Piece {
    std::uint32_t run = 0;
    std::uint64_t at_bytes = 0;
    std::uint64_t size_bytes = 0;
  };

  Status start_engine();
  bool has_room_for(const FetchPlan::Run& run) {
    return shards_.has_room_for(run.dataset, run.shard);
  }
  void cut(std::span<const FetchPlan::Run> runs, std::uint32_t run);
  Result<ReadPlan> plan_of(const FetchPlan::Run& run);
  void stage(RunSink& sink);
  Status submit(RunSink& sink);
  Status reap(RunSink& sink, std::size_t count_min, nanoseconds timeout);
  void complete(const Completion& completion, RunSink& sink);
  void finish(const FetchPlan::Run& run, const Progress& progress, RunSink& sink);
  Status read_warm_runs(RunSink& sink, const std::stop_token& stop);
  Status read_warm(const FetchPlan::Run& run, RunSink& sink, const std::stop_token& stop);
  std::int64_t transfer(const Request& request) const;
  Status go(RunSink& sink, const std::stop_token& stop);
  void abandon();
  void count(const FetchPlan::Run& run, std::size_t size_bytes);

  FetchShards& shards_;
  const Options options_;
  std::unique_ptr<Engine> engine_;
  std::span<const FetchPlan::Run> runs_;
  Places places_;
  // Kept from read to read for their memory.
  std::vector<Progress> progress_;   // of each run
  std::vector<Piece> pieces_;        // by tag
  std::vector<bool> is_in_flight_;   // by tag
  std::vector<std::uint32_t> warm_;  // runs that the page cache holds
  std::vector<Request> staged_;      // the next to submit
  std::size_t next_piece_ = 0;
  std::size_t next_warm_ = 0;
  Counters counters_;
};

}  // namespace stoker
