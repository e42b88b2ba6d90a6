/// \file
/// What is inside the public classes, for those that use each other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/loader/loader_part.h"
#include "dataset/order/order.h"
#include "dataset/order/selected_order.h"
#include "dataset/shard_dataset.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_windows.h"
#include "io/engine/arena.h"
#include "stoker/cache.h"
#include "stoker/dataset.h"
#include "stoker/device.h"
#include "stoker/fields.h"
#include "stoker/mixture.h"
#include "stoker/tokens.h"

namespace stoker::internal {

struct SampleState {
  SampleRecord record;
};

struct DatasetState {
  LoaderPart part;  ///< Without a weight.
  std::uint64_t count = 0;
};

struct TokensState {
  LoaderPart part;  ///< Without a weight.
  std::uint64_t count = 0;
  TokensOptions options;
  Dtype dtype = Dtype::int32;  ///< Of rows that are given out.
};

struct MixtureState {
  std::vector<Mixture::Part> parts;
  std::uint64_t epoch_samples = 0;  ///< As requested; 0: the sum.
  std::unique_ptr<SampleOrder> order;
  Digest128 fingerprint;
};

/// Some of the items of a part, as another part. `count`: its selected_count().
Result<LoaderPart> select_part(const LoaderPart& part, std::span<const std::uint64_t> numbers);
Result<LoaderPart> slice_part(const LoaderPart& part, std::uint64_t first, std::uint64_t count);
Result<std::vector<LoaderPart>> split_part(const LoaderPart& part, std::span<const double> parts,
                                           std::optional<std::uint64_t> seed);
/// The sample, window or pack that an item of a part is. `invalid_argument` if there is none.
Result<std::uint64_t> unit_of(const LoaderPart& part, std::uint64_t number);

class CacheInside {
 public:
  /// Null if there is none.
  static std::shared_ptr<ShardCache> cache(const std::optional<Cache>& cache) {
    return cache ? cache->cache_ : nullptr;
  }
};

class DatasetInside {
 public:
  static Dataset make(LoaderPart part);
  static const LoaderPart& part(const Dataset& dataset) noexcept { return dataset.state_->part; }
};

class TokensInside {
 public:
  static Tokens make(LoaderPart part, const TokensOptions& options, Dtype dtype);
  static const TokensState& state(const Tokens& tokens) noexcept { return *tokens.state_; }
  /// The column of a loader.
  static FieldSpec field(const Tokens& tokens);
};

class MixtureInside {
 public:
  static const MixtureState& state(const Mixture& mixture) noexcept { return *mixture.state_; }
};

class DeviceFeedInside {
 public:
  /// Memory to lease for batches.
  static ArenaMaker memory(const DeviceFeed& feed);
};

}  // namespace stoker::internal
