/// \file
/// ShardDataset: the samples of a set of shards, by number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/index/index.h"
#include "dataset/index/index_store.h"
#include "dataset/shard_cache/dataset_units.h"
#include "dataset/shard_cache/shard_cache.h"
#include "dataset/shards/inflated_cache.h"
#include "dataset/shards/open_files.h"
#include "dataset/shards/shard_source.h"
#include "formats/shard_format.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// The bytes of one sample and its fields. One object can be reused for many reads.
///
/// Thread safety: none.
class SampleRecord {
 public:
  const SampleView& view() const noexcept { return view_; }
  /// The sample's key: the key that the format stores, else the field "__key__", else "<shard
  /// stem>/<number in the shard>".
  const std::string& key() const noexcept { return key_; }

 private:
  friend class ShardDataset;
  std::span<std::byte> room(std::size_t size_bytes);

  std::shared_ptr<std::byte[]> memory_;  // aligned for direct reads
  std::size_t memory_bytes_ = 0;
  std::string key_;
  SampleView view_;
};

/// Opens shards and reads samples from them. Verifies checksums if the index has them.
///
/// Thread safety: const methods from any thread, also in a forked child: a dataset owns open
/// objects and mappings, but no threads and no rings.
class ShardDataset {
 public:
  struct Options {
    ShardSourceOptions source = {};
    IndexOptions index = {};
    CachePolicy policy = CachePolicy::automatic;
    /// Number of shards that stay open, with two descriptors each. 0: chosen from the descriptors
    /// the process has left; see OpenFilesShare.
    std::size_t open_shards_max = 0;
    /// Samples are read through it; null: from the store. The index is made from the store alone.
    std::shared_ptr<ShardCache> cache = {};
  };

  /// Opens the shards and their index; builds the index if there is none that matches the shards.
  /// If a directory has a manifest, its shards must match it: see check_against_manifest().
  static Result<std::shared_ptr<const ShardDataset>> open(std::span<const std::string> patterns,
                                                          const Options& options);
  static Result<std::shared_ptr<const ShardDataset>> open(const std::string& pattern) {
    return open({&pattern, 1}, Options());
  }
  ShardDataset(const ShardDataset&) = delete;
  ShardDataset& operator=(const ShardDataset&) = delete;
  ~ShardDataset();

  std::uint64_t sample_count() const noexcept { return index_.sample_count(); }
  const Index& index() const noexcept { return index_; }
  /// The file that the index was opened from; empty if the index is in memory only.
  const std::string& index_path() const noexcept { return index_path_; }
  /// Why the index is in memory only; OK if it is in a file.
  const Status& index_refused() const noexcept { return index_refused_; }
  /// What was wrong with the index file that this index replaced; OK if nothing was.
  const Status& index_damage() const noexcept { return index_damage_; }
  const ShardSource& source() const noexcept { return *source_; }
  /// The store that samples are read from: that of the source, or a cache over it.
  ObjectStore& sample_store() const noexcept {
    return cached_store_ ? *cached_store_ : source_->store();
  }
  /// The cache, and how it cuts the shards; null without one.
  const std::shared_ptr<ShardCache>& cache() const noexcept { return cache_; }
  const std::shared_ptr<DatasetUnits>& cache_units() const noexcept { return cache_units_; }

  /// Reads one sample. `corrupt` names shard, offset and sample; `unavailable` if the shard was
  /// changed after the dataset was opened and before the shard was (on its first read). After a
  /// failure `out` has no fields.
  Status read(std::uint64_t sample, SampleRecord& out) const;

  /// Returns a shard open for reading; `unavailable` if it changed since the dataset was opened.
  /// The first open_shards_max() shards stay open as long as the dataset, and their pointer owns
  /// nothing; any other shard closes with its pointer.
  Result<std::shared_ptr<const Object>> lend_shard(std::size_t shard) const;
  std::size_t open_shards_max() const noexcept { return open_files_.count(); }

  /// Returns the decompressed bytes of a compressed shard; the last few shards are cached.
  Result<InflatedCache::Bytes> inflate_shard(std::size_t shard) const;

  /// Compares a record with its checksum: `corrupt` on a mismatch; OK if the index has no
  /// checksums.
  Status check_record(const SampleLocation& at, std::span<const std::byte> record) const;

  /// The key of the format, else the field "__key__"; empty if it has neither.
  static std::string_view own_key(const SampleView& view) noexcept;
  /// The key of a sample whose format has none: "<shard stem>/<number in the shard>".
  std::string numbered_key(std::uint64_t sample, std::size_t shard) const;
  /// The key of a sample that was split into `view`: its own key, else numbered_key().
  std::string key_of(const SampleView& view, std::uint64_t sample, std::size_t shard) const;

  /// "shard.tar: sample 17 at byte 4096": for messages.
  std::string describe(std::uint64_t sample) const;

 private:
  ShardDataset(std::unique_ptr<ShardSource> source, IndexFile index, const Options& options);

  Result<std::span<const std::byte>> read_record(const SampleLocation& at, SampleRecord& out) const;
  Status read_and_split(std::uint64_t sample, const SampleLocation& at, SampleRecord& out) const;

  std::shared_ptr<const ShardSource> source_;
  Index index_;
  std::string index_path_;
  Status index_refused_;
  Status index_damage_;
  CachePolicy policy_;
  std::shared_ptr<ShardCache> cache_;
  std::shared_ptr<DatasetUnits> cache_units_;
  std::shared_ptr<ObjectStore> cached_store_;
  /// Shards that stay open: set once, never replaced, deleted with the dataset. Plain pointers,
  /// because atomic<shared_ptr> has an internal lock, and a fork while it is held would deadlock
  /// the child. Shards beyond the share are opened for each read. Acquire and release: a thread
  /// that sees the pointer also sees the Object.
  OpenFilesShare open_files_;
  std::unique_ptr<std::atomic<const Object*>[]> open_;
  mutable InflatedCache inflated_;
};

}  // namespace stoker
