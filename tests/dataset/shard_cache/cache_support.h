#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "dataset/shard_cache/cached_store.h"
#include "dataset/shard_cache/chunk_file.h"
#include "dataset/shard_cache/shard_cache.h"
#include "store/toys/memory_store.h"
#include "support/temp_dir.h"

namespace stoker::testing {

inline std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, size - at));
  }
  return bytes;
}

inline void put_object(ObjectStore& store, const std::string& key,
                       std::span<const std::byte> bytes) {
  auto upload = store.upload(key);
  ASSERT_TRUE(upload.ok());
  ASSERT_TRUE((*upload)->append(bytes).ok());
  ASSERT_TRUE(std::move(**upload).commit().ok());
}

inline std::shared_ptr<ShardCache> open_cache(const std::string& directory,
                                              std::uint64_t size_bytes = 64 << 20,
                                              FileOps* ops = nullptr) {
  auto cache = ShardCache::open({.directory = directory, .size_bytes = size_bytes, .ops = ops});
  EXPECT_TRUE(cache.ok()) << cache.status().message();
  return cache.ok() ? *cache : nullptr;
}

/// A store that is read through another, and tells of every read.
class WatchedStore final : public ObjectStore {
 public:
  /// Called before each read. A failure is its answer.
  using Before = std::function<Status(const std::string& key, std::uint64_t offset_bytes,
                                      std::size_t size_bytes)>;

  explicit WatchedStore(std::shared_ptr<ObjectStore> store, Before before = {})
      : store_(std::move(store)), before_(std::move(before)) {}

  std::uint64_t read_bytes() const { return read_bytes_; }
  std::uint64_t read_count() const { return read_count_; }

  std::string identity_of(const std::string& key) override { return store_->identity_of(key); }
  std::string uri_of(const std::string& key) override { return store_->uri_of(key); }
  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy policy) override {
    STOKER_ASSIGN(std::unique_ptr<const Object> object, store_->open(key, policy));
    return std::unique_ptr<const Object>(std::make_unique<Watched>(*this, std::move(object)));
  }
  Result<Entry> look(const std::string& key) override { return store_->look(key); }
  Status list(const std::string& folder, const Found& found) override {
    return store_->list(folder, found);
  }
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    return store_->upload(key);
  }
  Status remove(const std::string& key) override { return store_->remove(key); }

 private:
  class Watched final : public Object {
   public:
    Watched(WatchedStore& store, std::unique_ptr<const Object> object)
        : store_(store), object_(std::move(object)) {}
    const std::string& key() const noexcept override { return object_->key(); }
    const ObjectInfo& info() const noexcept override { return object_->info(); }
    Result<ObjectInfo> info_now() const override { return object_->info_now(); }
    Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                      std::span<std::byte> memory) const override {
      if (store_.before_) STOKER_TRY(store_.before_(key(), offset_bytes, size_bytes));
      store_.read_bytes_ += size_bytes;
      ++store_.read_count_;
      return object_->read(offset_bytes, size_bytes, memory);
    }

   private:
    WatchedStore& store_;
    const std::unique_ptr<const Object> object_;
  };

  const std::shared_ptr<ObjectStore> store_;
  const Before before_;
  std::atomic<std::uint64_t> read_bytes_{0};
  std::atomic<std::uint64_t> read_count_{0};
};

/// Reads a range with Object::read(); nothing if that fails.
inline std::optional<std::vector<std::byte>> read_range(const Object& object, std::uint64_t offset,
                                                        std::size_t size) {
  std::vector<std::byte> memory(size);
  const auto bytes = object.read(offset, size, memory);
  if (!bytes.ok()) return std::nullopt;
  memory.resize(bytes->size());
  return memory;
}

inline std::vector<std::byte> part_of(const std::vector<std::byte>& bytes, std::size_t offset,
                                      std::size_t size) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

/// The files below a folder of a cache ("chunks", "new").
inline std::vector<std::filesystem::path> files_below(const std::string& directory) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(directory)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

inline std::uint64_t bytes_below(const std::string& directory) {
  std::uint64_t bytes = 0;
  for (const auto& file : files_below(directory)) {
    std::error_code gone;
    const std::uintmax_t size = std::filesystem::file_size(file, gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

/// Flips one bit.
inline void flip_bit(const std::filesystem::path& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  ASSERT_NE(byte, EOF);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 4));
}

}  // namespace stoker::testing
