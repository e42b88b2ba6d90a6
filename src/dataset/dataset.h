/// \file
/// Dataset: the samples of a set of shards, by number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataset/index/index.h"
#include "dataset/index/index_store.h"
#include "dataset/shards/inflated_cache.h"
#include "dataset/shards/open_files.h"
#include "dataset/shards/shard_source.h"
#include "formats/shard_format.h"
#include "stoker/status.h"
#include "store/object_store.h"

namespace stoker {

/// One sample's bytes and what is in them. Reused from read to read.
///
/// Thread safety: none.
class SampleRecord {
 public:
  const SampleView& view() const noexcept { return view_; }
  /// The sample's key: the format's, or the field "__key__"; where there is neither, "<shard
  /// stem>/<number in the shard>".
  const std::string& key() const noexcept { return key_; }

 private:
  friend class Dataset;
  std::span<std::byte> room(std::size_t size_bytes);

  std::shared_ptr<std::byte[]> memory_;  // aligned for direct reads
  std::size_t memory_bytes_ = 0;
  std::string key_;
  SampleView view_;
};

/// Opens shards and reads samples from them, checked where the index has checksums.
///
/// Thread safety: const methods from any thread, also in a forked child: it holds objects and maps,
/// no threads and no rings.
class Dataset {
 public:
  struct Options {
    ShardSourceOptions source = {};
    IndexOptions index = {};
    CachePolicy policy = CachePolicy::automatic;
    /// Shards that stay open, with two descriptors each. 0: as many as the process's limit leaves
    /// to this dataset beside others; see OpenFilesShare.
    std::size_t open_shards_max = 0;
  };

  /// Opens the shards and their index, which is built now if there is none that fits. A directory
  /// that has a manifest must have its shards: see check_against_manifest().
  static Result<std::shared_ptr<const Dataset>> open(std::span<const std::string> patterns,
                                                     const Options& options);
  static Result<std::shared_ptr<const Dataset>> open(const std::string& pattern) {
    return open({&pattern, 1}, Options());
  }
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  ~Dataset();

  std::uint64_t sample_count() const noexcept { return index_.sample_count(); }
  const Index& index() const noexcept { return index_; }
  /// The file that the index was opened from; empty if it is kept in memory.
  const std::string& index_path() const noexcept { return index_path_; }
  /// Why the index is kept in memory; OK if it is not.
  const Status& index_refused() const noexcept { return index_refused_; }
  /// What was wrong with the index file that this one replaced; OK if nothing was.
  const Status& index_damage() const noexcept { return index_damage_; }
  const ShardSource& source() const noexcept { return *source_; }

  /// Reads one sample. `corrupt` names shard, offset and sample; `unavailable` if the shard was
  /// changed between the opening of the dataset and its own, which happens when it is first read.
  /// After a failure `out` holds no fields.
  Status read(std::uint64_t sample, SampleRecord& out) const;

  /// A shard, open for reading and unchanged since the dataset was opened, else `unavailable`.
  /// The first open_shards_max() stay open as long as the dataset, and their pointer owns nothing;
  /// others close with their pointer.
  Result<std::shared_ptr<const Object>> lend_shard(std::size_t shard) const;
  std::size_t open_shards_max() const noexcept { return open_files_.count(); }

  /// All of a compressed shard, inflated; the last few are kept.
  Result<InflatedCache::Bytes> inflate_shard(std::size_t shard) const;

  /// `corrupt` if the bytes are not those that were indexed; OK where the index has no checksums.
  Status check_record(const SampleLocation& at, std::span<const std::byte> record) const;

  /// The key of a sample whose format has none: "<shard stem>/<number in the shard>".
  std::string numbered_key(std::uint64_t sample, std::size_t shard) const;
  /// What a sample that was split into `view` is called: its own key, or else that one.
  std::string key_of(const SampleView& view, std::uint64_t sample, std::size_t shard) const;

  /// "shard.tar: sample 17 at byte 4096": for messages.
  std::string describe(std::uint64_t sample) const;

 private:
  Dataset(std::unique_ptr<ShardSource> source, IndexFile index, const Options& options);

  Result<std::span<const std::byte>> read_record(const SampleLocation& at, SampleRecord& out) const;
  Status read_and_split(std::uint64_t sample, const SampleLocation& at, SampleRecord& out) const;

  std::unique_ptr<ShardSource> source_;
  Index index_;
  std::string index_path_;
  Status index_refused_;
  Status index_damage_;
  CachePolicy policy_;
  /// Shards that stay open: installed once, never replaced, deleted with the dataset. Plain
  /// pointers, because atomic<shared_ptr> has a lock inside, and a fork in the middle of it would
  /// leave the child waiting for ever. Shards past the share are opened for each read. Acquire and
  /// release: whoever sees the pointer sees the Object.
  OpenFilesShare open_files_;
  std::unique_ptr<std::atomic<const Object*>[]> open_;
  mutable InflatedCache inflated_;
};

}  // namespace stoker
