/// \file
/// The index: where every sample of a dataset is stored. One memory-mapped file;
/// docs/formats/index.md defines its format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "dataset/index/checked_blocks.h"
#include "dataset/index/size_classes.h"
#include "formats/shard_format.h"
#include "io/files/path_at.h"
#include "stoker/status.h"

namespace stoker {

/// A shard, as it was when it was indexed.
struct IndexedShard {
  std::string name;  ///< Relative to the dataset.
  std::uint64_t size_bytes = 0;
  std::uint64_t plain_size_bytes = 0;  ///< Decompressed; size_bytes if not compressed.
  std::int64_t mtime_ns = 0;
  std::uint64_t first_sample = 0;
  std::uint64_t sample_count = 0;

  bool operator==(const IndexedShard&) const = default;
};

/// Where a sample is stored.
struct SampleLocation {
  std::uint32_t shard = 0;
  ByteRange record;
  std::uint32_t crc32c = 0;  ///< Of the record; valid if Index::has_checksums().
};

/// Collects the records of the scanners, shard by shard, and makes the index file in memory.
///
/// Thread safety: none.
class IndexWriter {
 public:
  /// `format` is the shards' format, at most 15 bytes: "tar", "mds".
  IndexWriter(std::string format, bool has_checksums);

  /// Begins the next shard; samples added later are in it.
  void add_shard(std::string name, std::uint64_t size_bytes, std::uint64_t plain_size_bytes,
                 std::int64_t mtime_ns);
  /// `unsupported` for a record whose offset or size is 256 TiB or more.
  Status add_sample(ByteRange record, std::uint32_t crc32c = 0);

  std::vector<std::byte> finish();

 private:
  std::string format_;
  bool has_checksums_;
  std::vector<IndexedShard> shards_;
  std::vector<std::byte> records_;
  std::uint64_t record_bytes_max_ = 0;
  SizeClasses::Counts size_classes_{};
};

/// An open index. Apart from the shard table, opening costs the same for ten samples and for a
/// billion: sample entries are verified in blocks of 64 KiB, each on first use.
///
/// Thread safety: every const method from any thread.
class Index {
 public:
  /// Opens a published index file. `corrupt` if its frame is damaged, `unsupported` if it was
  /// written in another major version: rebuild it with `stoker index`.
  static Result<Index> open(const PathAt& path);
  /// The same for bytes in memory, which must outlive the index.
  static Result<Index> parse(std::span<const std::byte> bytes);
  /// The same for bytes that the index takes over.
  static Result<Index> adopt(std::vector<std::byte> bytes);

  std::string_view format() const noexcept { return format_; }
  bool has_checksums() const noexcept { return has_checksums_; }
  std::uint64_t sample_count() const noexcept { return sample_count_; }
  const std::vector<IndexedShard>& shards() const noexcept { return shards_; }

  /// Returns where a sample is stored. `invalid_argument` past the end; `corrupt` if the entry or
  /// its block is damaged. `shard_hint`: a shard to try first, which saves a search if the sample
  /// is in it.
  Result<SampleLocation> locate(std::uint64_t sample, std::uint32_t shard_hint = 0) const;

  /// Prefetches the entry for a later locate(); for many lookups in a row.
  void prefetch(std::uint64_t sample) const noexcept;

  /// The size of the largest record; 0 if there are none.
  std::uint64_t record_bytes_max() const noexcept { return record_bytes_max_; }
  /// Upper bound of the total size of the `count` largest records, at most a quarter too high. If
  /// there are fewer samples, each missing one counts as the largest. Takes constant time: the
  /// header has counts by size. Saturates.
  std::uint64_t worst_case_bytes(std::uint64_t count) const noexcept {
    return SizeClasses::largest_sum(size_classes_, record_bytes_max_, count);
  }

  /// Identifies the samples and their order: a hash of the shards' base names (for MDS with the
  /// directories below the dataset's), their sizes and the sample table. Independent of the
  /// directory, modification times and checksums, so that it is the same on every node and tier.
  Digest128 fingerprint() const noexcept { return fingerprint_; }

  /// Verifies every block: `corrupt` if one is damaged.
  Status verify() const;

  /// Whether the header of a file, which may be damaged, says that it has checksums.
  static bool claims_checksums(const PathAt& path);

 private:
  Index() = default;
  Status check_block(std::uint64_t block) const;

  std::shared_ptr<const void> mapping_;  // keeps records_ alive
  CheckedBlocks records_;
  std::string format_;
  bool has_checksums_ = false;
  std::uint64_t sample_count_ = 0;
  std::uint64_t record_bytes_max_ = 0;
  SizeClasses::Counts size_classes_{};
  Digest128 fingerprint_;
  std::vector<IndexedShard> shards_;
};

}  // namespace stoker
