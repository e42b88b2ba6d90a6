#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dataset/shard_cache/chunk_id.h"
#include "dataset/shard_cache/fetch_units.h"
#include "dataset/shard_cache/shard_cache.h"
#include "stoker/store.h"

namespace stoker::internal {

/// An object of a source, read through a cache.
///
/// Thread safety: as Object.
class CachedObject final : public Object {
 public:
  CachedObject(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store,
               std::unique_ptr<const Object> source, std::unique_ptr<const FetchUnits> units,
               std::string identity);

  const std::string& key() const noexcept override { return source_->key(); }
  const ObjectInfo& info() const noexcept override { return source_->info(); }
  Result<ObjectInfo> info_now() const override { return source_->info_now(); }
  /// Reads with a CachedSource of its own, and so also in a forked child.
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const override;

  const Object& source() const noexcept { return *source_; }
  const std::string& identity() const noexcept { return identity_; }
  /// Whether it may be cached: an object without an identity or a version is only passed through.
  bool is_cached() const noexcept { return !identity_.empty() && info().version != 0; }
  /// The chunk with a byte of the object.
  ChunkId chunk_at(std::uint64_t offset_bytes) const;

 private:
  const std::shared_ptr<ShardCache> cache_;
  const std::shared_ptr<ObjectStore> store_;
  const std::unique_ptr<const Object> source_;
  const std::unique_ptr<const FetchUnits> units_;
  const std::string identity_;
  const Digest128 id_;
};

}  // namespace stoker::internal
