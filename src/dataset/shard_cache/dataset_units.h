#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "dataset/index/index.h"
#include "dataset/shard_cache/fetch_units.h"
#include "dataset/shard_cache/order_forecast.h"
#include "dataset/shards/shard_source.h"

namespace stoker {

/// What is fetched from a source and cached as one.
enum class FetchUnit : std::uint8_t {
  chunks,   ///< Ranges of 8 MiB: for data that fits the cache, and for orders that read blocks.
  records,  ///< Whole records, at least 64 KiB of them: for samples in random order.
};

/// How the shards of a dataset are cut, and which samples the chunks have.
///
/// With FetchUnit::records, a unit begins with each record that is the first to start in its 64 KiB
/// of the shard, and ends where the next one begins; units over ChunkId::kSizeMax are cut further,
/// and those of token arrays, of which windows are read, into 256 KiB.
/// Shards that are compressed as a whole are always read in chunks.
///
/// Thread safety: every method from any thread. The source and the index must outlive it.
class DatasetUnits final : public FetchUnitMaker, public ChunkSamples {
 public:
  DatasetUnits(const ShardSource& source, const Index& index);

  void use(FetchUnit unit) noexcept { unit_.store(unit, std::memory_order_relaxed); }
  FetchUnit unit() const noexcept { return unit_.load(std::memory_order_relaxed); }

  std::unique_ptr<const FetchUnits> units_of(const std::string& key,
                                             std::uint64_t size_bytes) const override;
  std::optional<SampleRange> samples_of(const ChunkId& id) const override;

  /// The unit of records with a byte of a shard.
  FetchUnits::Unit record_unit(std::size_t shard, std::uint64_t offset_bytes,
                               std::uint64_t object_bytes) const;
  std::uint64_t dataset_bytes() const noexcept { return dataset_bytes_; }
  /// The mean size of units of records with a sample, judged by some samples.
  double mean_record_unit_bytes() const;

 private:
  std::uint64_t start_of(std::uint64_t sample, std::size_t shard) const;
  std::uint64_t first_from(std::size_t shard, std::uint64_t offset_bytes) const;
  const std::unordered_map<std::uint64_t, std::uint32_t>& shards_by_id() const;

  const ShardSource& source_;
  const Index& index_;
  std::atomic<FetchUnit> unit_{FetchUnit::chunks};  // relaxed: it publishes nothing
  std::uint64_t dataset_bytes_ = 0;
  std::unordered_map<std::string, std::uint32_t> shard_of_key_;
  // By the low half of the object's ID, as of the opening of the dataset; made when first needed.
  mutable std::once_flag ids_made_;
  mutable std::unordered_map<std::uint64_t, std::uint32_t> shard_of_id_;
};

}  // namespace stoker
