#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dataset/shard_cache/chunk_id.h"

namespace stoker {

/// How an object is cut into the ranges that are fetched and cached as one. Every byte of the
/// object is in exactly one range, of at most ChunkId::kSizeMax.
///
/// Thread safety: immutable; const methods from any thread.
class FetchUnits {
 public:
  struct Unit {
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
  };

  virtual ~FetchUnits() = default;
  /// The range with a byte, which is inside the object.
  virtual Unit at(std::uint64_t offset_bytes) const = 0;
};

/// Chooses the units of each object.
///
/// Thread safety: const methods from any thread.
class FetchUnitMaker {
 public:
  virtual ~FetchUnitMaker() = default;
  virtual std::unique_ptr<const FetchUnits> units_of(const std::string& key,
                                                     std::uint64_t size_bytes) const = 0;
};

/// Cuts objects into chunks of kSizeMax, of which the last may be shorter: for whole reads.
std::unique_ptr<const FetchUnits> make_chunk_units(std::uint64_t object_bytes);

}  // namespace stoker
