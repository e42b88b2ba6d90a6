/// \file
/// MDS shards, version 2, of mosaicml-streaming.
///
///     u32 N | u32 off[N+1] | configuration, JSON | sample 0 | ... | sample N-1
///     sample: u32 length of each column of variable size | the values of all columns
///
/// off[] counts from the start of the file; off[0] is the end of the configuration, off[N] the end
/// of the file. Shards contain no checksums: those in the index cover whole files. A truncated
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

/// Reads raw shards with these columns. Decompress others with inflate_mds_shard() first.
///
/// Thread safety: const methods from any thread.
class MdsReader final : public ShardReader {
 public:
  explicit MdsReader(std::vector<MdsColumn> columns);

  /// The scanner checks the shard's table, and that its header has the same columns as the reader.
  /// The reader must outlive it.
  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const override;
  /// Like scan(), and also checks the size and the number of samples against the index.
  Result<std::unique_ptr<ShardScanner>> scan_shard(const MdsShard& shard,
                                                   std::uint64_t size_bytes) const;

  /// Views refer to the record, to `out.storage` or to the reader (names, fixed shapes), which must
  /// outlive `out`. MDS has no keys.
  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override;

  const std::vector<MdsColumn>& columns() const noexcept { return columns_; }

 private:
  std::vector<MdsColumn> columns_;
  std::size_t variable_count_ = 0;
};

/// Makes a reader for a shard without index.json, from the columns in its header. `shard` contains
/// at least the bytes before the first sample.
Result<std::unique_ptr<MdsReader>> make_mds_reader_from_shard(std::span<const std::byte> shard);

}  // namespace stoker
