/// \file
/// MDS compresses whole shards, and stores digests of both forms.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/decompress.h"
#include "formats/mds/mds_index.h"
#include "stoker/status.h"

namespace stoker {

struct MdsCompression {
  Codec codec = Codec::zstd;
  int level = 3;

  std::string_view extension() const noexcept { return codec == Codec::zstd ? "zstd" : "gz"; }
};

/// Parses "zstd", "zstd:1" to "zstd:22", "gz", "gz:0" to "gz:9", "br", "br:0" to "br:11", "bz2",
/// "bz2:1" to "bz2:9", "snappy". `unsupported` for other names, `corrupt` for other levels.
Result<MdsCompression> parse_mds_compression(std::string_view text);
/// Like parse_mds_compression(), but `unsupported` for codecs that are read only (br, bz2, snappy).
Result<MdsCompression> parse_mds_write_compression(std::string_view text);

/// Compresses with zstd or gz. Reproducible: the gzip header contains no time.
Result<std::vector<std::byte>> compress_mds(const MdsCompression& compression,
                                            std::span<const std::byte> raw);

/// `corrupt` if the size or a digest of `bytes` differs from the index; `unsupported` if the index
/// uses an unknown digest.
Status check_mds_file(const MdsFile& file, std::span<const std::byte> bytes);

/// Decompresses a shard. Checks size and digests before and after, and never writes more bytes than
/// the index says.
Result<std::vector<std::byte>> inflate_mds_shard(const MdsShard& shard,
                                                 std::span<const std::byte> compressed);

}  // namespace stoker
