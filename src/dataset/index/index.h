/// \file
/// The index: where every sample of a dataset lies. One file, memory-mapped; docs/formats/index.md
/// has its bytes.
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

/// One shard as it was when it was indexed.
struct IndexedShard {
  std::string name;  ///< Relative to the dataset.
  std::uint64_t size_bytes = 0;
  std::uint64_t plain_size_bytes = 0;  ///< Inflated; the same as size_bytes if not compressed.
  std::int64_t mtime_ns = 0;
  std::uint64_t first_sample = 0;
  std::uint64_t sample_count = 0;

  bool operator==(const IndexedShard&) const = default;
};

/// Where one sample is.
struct SampleLocation {
  std::uint32_t shard = 0;
  ByteRange record;
  std::uint32_t crc32c = 0;  ///< Of the record; meaningful if Index::has_checksums().
};

/// Collects what the scanners find, shard by shard, and lays the index file out in memory.
///
/// Thread safety: none.
class IndexWriter {
 public:
  /// `format` is the shards' format, at most 15 bytes: "tar", "mds".
  IndexWriter(std::string format, bool has_checksums);

  /// Begins the next shard; the samples that follow are in it.
  void add_shard(std::string name, std::uint64_t size_bytes, std::uint64_t plain_size_bytes,
                 std::int64_t mtime_ns);
  /// `unsupported` for a record that does not end below 256 TiB.
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

/// An open index. Opening costs the same for ten samples and for a billion, but for the shard
/// table: sample entries are checked in blocks of 64 KiB, each when it is first looked at.
///
/// Thread safety: every const method from any thread.
class Index {
 public:
  /// Opens a published index file. `corrupt` if its frame is damaged, `unsupported` if it was
  /// written in another major version: rebuild it with `stoker index`.
  static Result<Index> open(const PathAt& path);
  /// The same over bytes that outlive the index.
  static Result<Index> parse(std::span<const std::byte> bytes);
  /// The same over bytes that it keeps.
  static Result<Index> adopt(std::vector<std::byte> bytes);

  std::string_view format() const noexcept { return format_; }
  bool has_checksums() const noexcept { return has_checksums_; }
  std::uint64_t sample_count() const noexcept { return sample_count_; }
  const std::vector<IndexedShard>& shards() const noexcept { return shards_; }

  /// `invalid_argument` past the end; `corrupt` if the block that holds the entry is damaged.
  /// `shard_hint`: the shard it may be in, which spares a search if it is.
  Result<SampleLocation> locate(std::uint64_t sample, std::uint32_t shard_hint = 0) const;

  /// Asks the CPU for the entry that locate() will want; for many lookups in a row.
  void prefetch(std::uint64_t sample) const noexcept;

  /// The size of the largest record; 0 if there are none.
  std::uint64_t record_bytes_max() const noexcept { return record_bytes_max_; }
  /// What the `count` largest records take together, at most a quarter too high; where there are
  /// fewer samples, the largest counts again for each that is missing. In constant time, from
  /// counts by size in the header. Saturates.
  std::uint64_t worst_case_bytes(std::uint64_t count) const noexcept {
    return SizeClasses::largest_sum(size_classes_, record_bytes_max_, count);
  }

  /// Identifies the samples and their order: shard base names (of MDS with the directories below
  /// the dataset's), sizes and the sample table. The same on every node and tier, whatever the
  /// directory, the times and the checksums.
  Digest128 fingerprint() const noexcept { return fingerprint_; }

  /// Checks every block now.
  Status verify() const;

  /// Whether a file that may be damaged says that it has checksums.
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
