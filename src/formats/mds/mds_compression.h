/// \file
/// MDS compresses a shard as a whole, and takes digests of both forms.
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

/// "zstd", "zstd:1" to "zstd:22", "gz", "gz:0" to "gz:9", "br", "br:0" to "br:11", "bz2", "bz2:1"
/// to "bz2:9", "snappy". `unsupported` for other names, `corrupt` for other levels.
Result<MdsCompression> parse_mds_compression(std::string_view text);
/// As parse_mds_compression(), but `unsupported` for what is only read (br, bz2, snappy).
Result<MdsCompression> parse_mds_write_compression(std::string_view text);

/// With zstd or gz. The same bytes each time (a gzip header without a time of day).
Result<std::vector<std::byte>> compress_mds(const MdsCompression& compression,
                                            std::span<const std::byte> raw);

/// `corrupt` if `bytes` have another size or another digest than the index says; `unsupported` if
/// one of its digests is unknown.
Status check_mds_file(const MdsFile& file, std::span<const std::byte> bytes);

/// The raw shard from its compressed file: size and digests checked before and after, and never
/// more bytes out than the index says.
Result<std::vector<std::byte>> inflate_mds_shard(const MdsShard& shard,
                                                 std::span<const std::byte> compressed);

}  // namespace stoker
