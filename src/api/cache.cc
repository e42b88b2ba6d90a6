#include "stoker/cache.h"

#include <utility>

#include "api/border.h"
#include "api/inside.h"
#include "dataset/shard_cache/shard_cache.h"

namespace stoker {

Cache::Cache(std::shared_ptr<ShardCache> cache) noexcept : cache_(std::move(cache)) {}
Cache::Cache(const Cache& other) noexcept = default;
Cache& Cache::operator=(const Cache& other) noexcept = default;
Cache::~Cache() = default;

Result<Cache> Cache::open(std::string directory, std::uint64_t size_bytes) {
  return internal::at_border([&]() -> Result<Cache> {
    STOKER_ASSIGN(std::shared_ptr<ShardCache> cache,
                  ShardCache::open({.directory = std::move(directory), .size_bytes = size_bytes}));
    return Cache(std::move(cache));
  });
}

const std::string& Cache::directory() const noexcept {
  return cache_->options().directory;
}

std::uint64_t Cache::size_bytes() const noexcept {
  return cache_->options().size_bytes;
}

CacheStats Cache::stats() const {
  return cache_->stats();
}

Status Cache::trouble() const {
  return cache_->trouble();
}

}  // namespace stoker
