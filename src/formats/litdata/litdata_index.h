/// \file
/// index.json of a LitData dataset: its chunks, and the structure of their samples.
///
///     {"chunks": [{"chunk_bytes": ..., "chunk_size": samples, "dim": null | tokens,
///                  "filename": "chunk-0-0.bin"}, ...],
///      "config": {"compression": null | "zstd" | "zstd:4",
///                 "compression_level": absent | null | "chunk" | "batch" | "sample",
///                 "data_format": ["int", "str"], "data_spec": pytree as JSON text,
///                 "encryption": null, "item_loader": "PyTreeLoader" | "TokensLoader", ...}, ...}
///
/// Before 0.2.21 there was no item_loader: samples of a single 1-D tensor are tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/litdata/litdata_leaf.h"
#include "stoker/status.h"

namespace stoker {

struct LitdataChunk {
  std::string filename;
  /// Size of the chunk before compression as a whole, but after compression of its frames. Before
  /// 0.2.40 LitData did not count the table of offsets.
  std::uint64_t size_bytes = 0;
  std::uint64_t sample_count = 0;
  std::optional<std::uint64_t> token_count;  ///< For chunks of tokens.
};

struct LitdataIndex {
  /// How zstd was used. LitData calls it compression_level.
  enum class Compression : std::uint8_t {
    none,
    chunk,   ///< The file as a whole.
    batch,   ///< Frames of many samples inside the file.
    sample,  ///< Each sample by itself.
  };

  std::vector<LitdataChunk> chunks;
  Compression compression = Compression::none;
  bool is_tokens = false;           ///< Tokens without structure, back to back.
  std::vector<LitdataLeaf> leaves;  ///< If is_tokens: one leaf, a flat array.
};

/// `corrupt` names the key in error. `unsupported`, with the reason, for encryption, pickle, other
/// compressions and other item loaders (Parquet).
Result<LitdataIndex> parse_litdata_index(std::string_view text);

}  // namespace stoker
