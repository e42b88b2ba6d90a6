#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "base/counters.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/fetch/fetch_shards.h"
#include "dataset/fetch/stretch_reader.h"
#include "stoker/status.h"

namespace stoker {

/// Turns the stretches of a plan into records or rows: splits stretches, verifies checksums and
/// copies where needed; and finds the record at fault when a merged read fails.
///
/// Thread safety: none, except that counters() may be read from any thread.
class FetchDelivery final : public StretchSink {
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

  FetchDelivery(FetchShards& shards, StretchReader& reader, bool checksums)
      : shards_(shards), reader_(reader), checksums_(checksums) {}

  /// Executes the plan. Fails only if reading cannot continue; failures of single records are in
  /// the target.
  Status read(const FetchPlan& plan, const Target& target, const std::stop_token& stop);

  const Counters& counters() const noexcept { return counters_; }

  void stretch_done(const FetchPlan::Stretch& stretch, std::span<std::byte> bytes) override;
  void stretch_failed(const FetchPlan::Stretch& stretch, const Status& status) override;

 private:
  using Stretch = FetchPlan::Stretch;
  using Item = FetchPlan::Item;

  /// The memory for stretches that are not batched (FetchPlan::is_batched()).
  std::span<std::byte> packed() const { return plan_->is_rows_ ? target_.rows : target_.memory; }
  std::span<const Item> items_of(const Stretch& stretch) const {
    return std::span(plan_->items_).subspan(stretch.item_first, stretch.item_count);
  }
  void copy_inflated(const Stretch& stretch);
  Status isolate(const Stretch& stretch, const std::stop_token& stop);
  Status read_alone(const Stretch& stretch, const Item& item, const std::stop_token& stop);
  void deliver(const Stretch& stretch, const Item& item, std::span<const std::byte> bytes);
  void fail(const Stretch& stretch, const Item& item, const Status& status);
  void fail(std::uint32_t out, const Status& status);

  FetchShards& shards_;
  StretchReader& reader_;
  const bool checksums_;
  Counters counters_;

  // State of the current read.
  const FetchPlan* plan_ = nullptr;
  Target target_;
  std::vector<const Stretch*> failed_stretches_;  // merged stretches: one record may be at fault
};

}  // namespace stoker
