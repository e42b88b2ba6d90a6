/// \file
/// index.json of an MDS dataset, version 2: which shards there are, and what is in them.
///
///     {"shards": [{"column_encodings": [...], "column_names": [...], "column_sizes": [...],
///                  "compression": null | "zstd:3", "format": "mds", "hashes": ["sha256"],
///                  "raw_data": {"basename": ..., "bytes": ..., "hashes": {"sha256": hex}},
///                  "samples": ..., "size_limit": ..., "version": 2,
///                  "zip_data": null | {as raw_data}}, ...],
///      "version": 2}
///
/// A shard carries the first of these keys, down to "version" and without raw_data, samples and
/// zip_data, in its own header: its configuration. Both are written as Python's
/// json.dumps(sort_keys=True) writes them, byte for byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/mds/mds_encoding.h"
#include "stoker/status.h"

namespace stoker {

struct MdsColumn {
  std::string name;
  MdsEncoding encoding;
};

/// What a shard says of itself.
struct MdsConfig {
  std::vector<MdsColumn> columns;
  std::optional<std::string> compression;  ///< "zstd", "zstd:7", "gz:9", ...
  std::vector<std::string> hashes;         ///< Names, sorted.
  std::optional<std::uint64_t> size_limit_bytes = std::uint64_t{1} << 26;
};

/// One file of a shard.
struct MdsFile {
  std::string basename;  ///< With directories in a merged index: "en/shard.00000.mds".
  std::uint64_t size_bytes = 0;
  std::vector<std::pair<std::string, std::string>> hashes;  ///< Name and digest, sorted by name.
};

struct MdsShard {
  MdsConfig config;
  MdsFile raw;
  std::optional<MdsFile> zip;  ///< What is stored instead of `raw`, if it is compressed.
  std::uint64_t sample_count = 0;
};

/// `corrupt` names the key at fault: a missing or negative one, duplicate columns, or columns whose
/// sizes deny their encodings, names of files with more than [A-Za-z0-9._-] in them or that lead
/// out of the dataset, duplicate files. `unsupported` for pickle columns and for shards of
/// JSON or CSV.
Result<std::vector<MdsShard>> parse_mds_index(std::string_view text);
std::string format_mds_index(const std::vector<MdsShard>& shards);

/// The configuration in a shard's header.
Result<MdsConfig> parse_mds_config(std::string_view text);
std::string format_mds_config(const MdsConfig& config);

/// Columns with their encodings and nothing else: equal if they read the same bytes the same way.
bool same_mds_columns(const std::vector<MdsColumn>& left, const std::vector<MdsColumn>& right);

}  // namespace stoker
