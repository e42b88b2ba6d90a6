#include "dataset/shard_cache/cache_inspect.h"

#include <algorithm>
#include <map>
#include <memory>

#include "dataset/shard_cache/cache_directory.h"
#include "dataset/shard_cache/order_forecast.h"

namespace stoker {
namespace {

/// A cache that is looked at: nobody's order matters, and nothing is evicted.
struct OpenedCache {
  OrderForecast forecast;
  std::unique_ptr<CacheDirectory> directory;
};

Result<std::unique_ptr<OpenedCache>> open_cache_directory(FileOps& ops, const std::string& path) {
  auto opened = std::make_unique<OpenedCache>();
  STOKER_ASSIGN(opened->directory,
                CacheDirectory::open_existing(ops, {.path = path, .limit_bytes = UINT64_MAX},
                                              opened->forecast));
  return opened;
}

}  // namespace

Result<std::vector<CachedObjectReport>> list_cache(FileOps& ops, const std::string& directory) {
  STOKER_ASSIGN(const std::unique_ptr<OpenedCache> cache, open_cache_directory(ops, directory));
  STOKER_ASSIGN(const std::vector<CacheDirectory::Chunk> chunks, cache->directory->list());
  std::map<std::pair<std::uint64_t, std::uint64_t>, CachedObjectReport> objects;
  for (const CacheDirectory::Chunk& chunk : chunks) {
    CachedObjectReport& object = objects[{chunk.id.object.high, chunk.id.object.low}];
    ++object.chunk_count;
    object.size_bytes += chunk.file_bytes;
    object.last_used_ns = std::max(object.last_used_ns, chunk.modified_ns);
    if (!object.identity.empty()) continue;
    const Result<ChunkFile> file = cache->directory->find(chunk.id);
    if (file.ok()) object.identity = file->head().identity;
  }
  std::vector<CachedObjectReport> reports;
  for (auto& [id, object] : objects) reports.push_back(std::move(object));
  std::ranges::sort(reports, [](const CachedObjectReport& a, const CachedObjectReport& b) {
    return a.size_bytes != b.size_bytes ? a.size_bytes > b.size_bytes : a.identity < b.identity;
  });
  return reports;
}

Result<CacheVerifyReport> verify_cache(FileOps& ops, const std::string& directory,
                                       const std::stop_token& stop) {
  STOKER_ASSIGN(const std::unique_ptr<OpenedCache> cache, open_cache_directory(ops, directory));
  STOKER_ASSIGN(const std::vector<CacheDirectory::Chunk> chunks, cache->directory->list());
  CacheVerifyReport report;
  for (const CacheDirectory::Chunk& chunk : chunks) {
    if (stop.stop_requested()) return Status(Code::cancelled, "interrupted");
    const Result<ChunkFile> file = cache->directory->find(chunk.id);
    if (file.status().code() == Code::not_found) continue;  // evicted meanwhile
    ++report.chunk_count;
    report.size_bytes += chunk.file_bytes;
    Status status = file.ok() ? file->verify() : file.status();
    if (status.ok() || (file.ok() && !file->is_named())) continue;
    if (status.code() != Code::corrupt) return status;
    if (file.ok())
      status = status.with_context(chunk_name(chunk.id) + " of " + file->head().identity);
    report.damaged.emplace_back(status.message());
    STOKER_TRY(cache->directory->remove(chunk.id));
  }
  return report;
}

Result<std::uint64_t> clear_cache(FileOps& ops, const std::string& directory) {
  STOKER_ASSIGN(const std::unique_ptr<OpenedCache> cache, open_cache_directory(ops, directory));
  const std::uint64_t before = cache->directory->used_bytes();
  STOKER_TRY(cache->directory->clear());
  return before - std::min(before, cache->directory->used_bytes());
}

}  // namespace stoker
