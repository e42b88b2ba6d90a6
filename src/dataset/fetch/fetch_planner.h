#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataset/fetch/fetch_plan.h"
#include "dataset/fetch/fetch_shards.h"
#include "stoker/order.h"
#include "stoker/status.h"

namespace stoker {

/// Turns samples or pieces of rows into a FetchPlan: sorts them by place, merges neighbors into
/// stretches, and assigns memory to each stretch.
///
/// Thread safety: none.
class FetchPlanner {
 public:
  struct Options {
    std::uint32_t gap_bytes = 0;    ///< See FetchOptions.
    std::uint32_t piece_bytes = 0;  ///< Maximum length of a merged stretch.
  };

  /// Maximum memory a record needs beyond its bytes: alignment at both ends, and a merged gap.
  static std::uint64_t room_overhead_bytes(const Options& options) noexcept;

  FetchPlanner(FetchShards& shards, const Options& options) : shards_(shards), options_(options) {}

  Status plan(std::span<const SampleRef> samples, FetchPlan& out);
  Status plan_rows(std::span<const RowPiece> pieces, std::uint64_t row_bytes, std::size_t row_count,
                   FetchPlan& out);

 private:
  struct Wanted {
    std::uint64_t sample;
    std::uint32_t dataset;
    std::uint32_t out;
  };
  struct Place {
    std::uint32_t dataset;
    std::uint32_t shard;
  };

  Status add(Place place, const FetchPlan::Item& item, FetchPlan& out);
  bool try_merge(Place place, const FetchShards::Choice& choice, const FetchPlan::Item& item,
                 FetchPlan& out) const;
  Status check(const RowPiece& piece, std::uint64_t row_bytes, std::size_t row_count) const;
  void lay_out(FetchPlan& out);

  FetchShards& shards_;
  const Options options_;
  std::vector<Wanted> wanted_;        // kept to reuse its memory
  std::vector<std::uint32_t> order_;  // the same
};

}  // namespace stoker
