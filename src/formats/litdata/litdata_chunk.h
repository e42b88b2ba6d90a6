/// \file
/// LitData chunks.
///
///     u32 N | u32 off[N+1] | item 0 | ... | item N-1          off[0] is where the table ends
///     item of a PyTreeLoader: u32 size of each leaf | the leaves
///     item of a TokensLoader: tokens, and nothing else
///
/// After the last item, the rows may be stored a second time, as Arrow: | Arrow IPC | u32 size |
/// "LDARW01\0". The Arrow rows are not read; if the items are empty because of them, the chunk is
/// `unsupported`. There are no checksums. A truncated chunk is always `corrupt`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/litdata/litdata_index.h"
#include "formats/shard_format.h"

namespace stoker {

/// Reads uncompressed chunks; decompress others with inflate_litdata_chunk() first.
///
/// Thread safety: const methods from any thread.
class LitdataReader final : public ShardReader {
 public:
  struct Options {
    /// For tokens: records are blocks of this many tokens, regardless of the items. The remainder
    /// at the end of a chunk is dropped, as in LitData. 0: records are the items as written.
    std::uint64_t block_tokens = 0;
  };

  /// `invalid_argument` for blocks of a dataset that is not tokens, or of 2^32 tokens or more.
  static Result<std::unique_ptr<LitdataReader>> make(const LitdataIndex& index, Options options);
  static Result<std::unique_ptr<LitdataReader>> make(const LitdataIndex& index) {
    return make(index, Options());
  }

  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const override;
  /// Like scan(), and also checks the numbers of samples and tokens against the index.
  Result<std::unique_ptr<ShardScanner>> scan_chunk(const LitdataChunk& chunk,
                                                   std::uint64_t size_bytes) const;

  /// Views refer to the record, to `out.storage` or to the reader (names), which must outlive
  /// `out`. LitData has no keys.
  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override;

 private:
  LitdataReader(std::vector<LitdataLeaf> leaves, bool is_tokens, Options options);

  std::vector<LitdataLeaf> leaves_;
  bool is_tokens_;
  std::uint64_t token_bytes_ = 0;
  std::uint64_t block_bytes_ = 0;
};

}  // namespace stoker
