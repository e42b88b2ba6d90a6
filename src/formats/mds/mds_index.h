/// \file
/// index.json of an MDS dataset, version 2: its shards and their contents.
///
///     {"shards": [{"column_encodings": [...], "column_names": [...], "column_sizes": [...],
///                  "compression": null | "zstd:3", "format": "mds", "hashes": ["sha256"],
///                  "raw_data": {"basename": ..., "bytes": ..., "hashes": {"sha256": hex}},
///                  "samples": ..., "size_limit": ..., "version": 2,
///                  "zip_data": null | {as raw_data}}, ...],
///      "version": 2}
///
/// The header of a shard contains its configuration: the keys from "column_encodings" to "version",
/// without raw_data and samples. Both texts are byte for byte those of Python's
/// json.dumps(sort_keys=True).
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

/// The configuration in a shard's header.
struct MdsConfig {
  std::vector<MdsColumn> columns;
  std::optional<std::string> compression;  ///< "zstd", "zstd:7", "gz:9", ...
  std::vector<std::string> hashes;         ///< Names, sorted.
  std::optional<std::uint64_t> size_limit_bytes = std::uint64_t{1} << 26;
};

/// One file of a shard.
struct MdsFile {
  std::string basename;  ///< Includes directories in a merged index: "en/shard.00000.mds".
  std::uint64_t size_bytes = 0;
  std::vector<std::pair<std::string, std::string>> hashes;  ///< Name and digest, sorted by name.
};

struct MdsShard {
  MdsConfig config;
  MdsFile raw;
  std::optional<MdsFile> zip;  ///< If compressed: the file that is stored instead of `raw`.
  std::uint64_t sample_count = 0;
};

/// `corrupt` names the key in error: missing or negative values, duplicate columns, column sizes
/// that contradict their encodings, duplicate files, file names with characters other than
/// [A-Za-z0-9._-] or outside the dataset. `unsupported` for pickle columns and for shards of JSON
/// or CSV.
Result<std::vector<MdsShard>> parse_mds_index(std::string_view text);
std::string format_mds_index(const std::vector<MdsShard>& shards);

/// Parses the configuration in a shard's header.
Result<MdsConfig> parse_mds_config(std::string_view text);
std::string format_mds_config(const MdsConfig& config);

/// Whether both have the same names and encodings in the same order, and so read the same bytes in
/// the same way.
bool same_mds_columns(const std::vector<MdsColumn>& left, const std::vector<MdsColumn>& right);

}  // namespace stoker
