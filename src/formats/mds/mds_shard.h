/// \file
/// MDS shards, version 2, of mosaicml-streaming.
///
///     u32 N | u32 off[N+1] | configuration, JSON | sample 0 | ... | sample N-1
///     sample: u32 length of each column of variable size | the values of all columns
///
/// off[] counts from the start of the file; off[0] is where the configuration ends, off[N] where
/// the file does. There are no checksums inside: those of the index cover whole files. A truncated
/// shard is always `corrupt`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/mds/mds_index.h"
#include "formats/shard_format.h"

namespace stoker {

/// Reads raw shards with these columns. Compressed ones go through inflate_mds_shard() first.
///
/// Thread safety: const methods from any thread.
class MdsReader final : public ShardReader {
 public:
  explicit MdsReader(std::vector<MdsColumn> columns);

  /// Checks the shard's table, and that its header has the same columns as the reader.
  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const override;
  /// As scan(), and that size and number of samples are those of the index.
  Result<std::unique_ptr<ShardScanner>> scan_shard(const MdsShard& shard,
                                                   std::uint64_t size_bytes) const;

  /// Beside the record and `out.storage`, views look into the reader (names, fixed shapes), which
  /// must outlive `out`. MDS has no keys.
  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override;

  const std::vector<MdsColumn>& columns() const noexcept { return columns_; }

 private:
  std::vector<MdsColumn> columns_;
  std::size_t variable_count_ = 0;
};

/// A reader for a shard without index.json, from the columns in its header: `shard` holds at least
/// the bytes up to the first sample.
Result<std::unique_ptr<MdsReader>> make_mds_reader_from_shard(std::span<const std::byte> shard);

}  // namespace stoker
