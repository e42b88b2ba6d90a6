#include "dataset/shard_cache/cached_store.h"

#include <array>
#include <utility>

#include "dataset/shard_cache/cached_source.h"
#include "store/open_object.h"

namespace stoker {
namespace internal {
namespace {

class CachedStore final : public ObjectStore {
 public:
  CachedStore(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> source,
              std::shared_ptr<const FetchUnitMaker> units)
      : cache_(std::move(cache)), source_(std::move(source)), units_(std::move(units)) {}

  std::string identity_of(const std::string& key) override { return source_->identity_of(key); }
  std::string uri_of(const std::string& key) override { return source_->uri_of(key); }

  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy) override {
    STOKER_ASSIGN(std::unique_ptr<const Object> object,
                  open_object(*source_, key, CachePolicy::buffered));
    const std::uint64_t size = object->info().size_bytes;
    std::unique_ptr<const FetchUnits> units =
        units_ ? units_->units_of(key, size) : make_chunk_units(size);
    return std::unique_ptr<const Object>(std::make_unique<CachedObject>(
        cache_, source_, std::move(object), std::move(units), source_->identity_of(key)));
  }
  Result<Entry> look(const std::string& key) override { return source_->look(key); }
  Status list(const std::string& folder, const Found& found) override {
    return source_->list(folder, found);
  }
  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override {
    STOKER_ASSIGN(std::unique_ptr<RangeSource> source, open_source(*source_, depth));
    return std::unique_ptr<RangeSource>(
        std::make_unique<CachedSource>(cache_, std::move(source), depth));
  }
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    return source_->upload(key);
  }
  Status remove(const std::string& key) override { return source_->remove(key); }

 private:
  const std::shared_ptr<ShardCache> cache_;
  const std::shared_ptr<ObjectStore> source_;
  const std::shared_ptr<const FetchUnitMaker> units_;
};

}  // namespace

CachedObject::CachedObject(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store,
                           std::unique_ptr<const Object> source,
                           std::unique_ptr<const FetchUnits> units, std::string identity)
    : cache_(std::move(cache)),
      store_(std::move(store)),
      source_(std::move(source)),
      units_(std::move(units)),
      identity_(std::move(identity)),
      id_(object_id(identity_, source_->info())) {}

ChunkId CachedObject::chunk_at(std::uint64_t offset_bytes) const {
  const FetchUnits::Unit unit = units_->at(offset_bytes);
  return {.object = id_,
          .offset_bytes = unit.offset_bytes,
          .size_bytes = static_cast<std::uint32_t>(unit.size_bytes)};
}

Result<std::span<std::byte>> CachedObject::read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                                std::span<std::byte> memory) const {
  // The source that reads with Object::read() needs no connection or ring of its own.
  STOKER_ASSIGN(std::unique_ptr<RangeSource> plain, store_->ObjectStore::make_source(1));
  CachedSource source(cache_, std::move(plain), 1);
  const std::array<Request, 1> request = {
      request_of(*this, offset_bytes, memory.first(size_bytes))};
  STOKER_TRY(source.submit(request).status());
  std::array<Completion, 1> done{};
  STOKER_ASSIGN(const std::size_t count, source.reap(done, 1, kForever));
  if (count == 1 && done[0].result >= 0)
    return memory.first(static_cast<std::size_t>(done[0].result));
  return source_->read(offset_bytes, size_bytes, memory);  // for what went wrong, in words
}

}  // namespace internal

std::shared_ptr<ObjectStore> ShardCache::over(std::shared_ptr<ShardCache> cache,
                                              std::shared_ptr<ObjectStore> source,
                                              std::shared_ptr<const FetchUnitMaker> units) {
  return std::make_shared<internal::CachedStore>(std::move(cache), std::move(source),
                                                 std::move(units));
}

}  // namespace stoker
