#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "base/counters.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/fetch/fetch_shards.h"
#include "dataset/fetch/run_reader.h"
#include "stoker/status.h"

namespace stoker {

/// Turns the runs of a plan into records or rows: splits runs, verifies checksums and copies where
/// needed; and finds the record at fault when a merged read fails.
///
/// Thread safety: none, except that counters() may be read from any thread.
class FetchDelivery final : public RunSink {
 public:
  /// Where the bytes go: into `records` and `memory`, or for a plan of rows into `rows`.
  struct Target {
    std::span<std::byte> memory;
    std::span<FetchedRecord> records = {};
    std::span<std::byte> rows = {};
    std::span<Status> row_status = {};
  };

  struct Counters {
    Counter record_count, record_bytes, failure_count, checked_bytes, inflated_bytes;
  };

  FetchDelivery(FetchShards& shards, RunReader& reader, bool checksums)
      : shards_(shards), reader_(reader), checksums_(checksums) {}

  /// Executes the plan. Fails only if reading cannot continue; failures of single records are in
  /// the target.
  Status read(const FetchPlan& plan, const Target& target, const std::stop_token& stop);

  const Counters& counters() const noexcept { return counters_; }

  void run_done(const FetchPlan::Run& run, std::span<std::byte> bytes) override;
  void run_failed(const FetchPlan::Run& run, const Status& status) override;

 private:
  using Run = FetchPlan::Run;
  using Item = FetchPlan::Item;

  /// The memory for runs that are not batched (FetchPlan::is_batched()).
  std::span<std::byte> packed() const { return plan_->is_rows_ ? target_.rows : target_.memory; }
  std::span<const Item> items_of(const Run& run) const {
    return std::span(plan_->items_).subspan(run.item_first, run.item_count);
  }
  void copy_inflated(const Run& run);
  Status isolate(const Run& run, const std::stop_token& stop);
  Status read_alone(const Run& run, const Item& item, const std::stop_token& stop);
  void deliver(const Run& run, const Item& item, std::span<const std::byte> bytes);
  void fail(const Run& run, const Item& item, const Status& status);
  void fail(std::uint32_t out, const Status& status);

  FetchShards& shards_;
  RunReader& reader_;
  const bool checksums_;
  Counters counters_;

  // State of the current read.
  const FetchPlan* plan_ = nullptr;
  Target target_;
  std::vector<const Run*> failed_runs_;  // merged runs: one record may be at fault
};

}  // namespace stoker
