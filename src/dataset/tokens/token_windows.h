/// \file
/// Windows over token arrays that may be larger than memory.
#pragma once

#include <cstdint>
#include <vector>

#include "dataset/shard_dataset.h"
#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// Where a token window is stored.
struct TokenSpan {
  std::uint32_t shard = 0;
  ByteRange range;  ///< In the shard, uncompressed.

  bool operator==(const TokenSpan&) const = default;
};

/// Divides the tokens of each shard, all its sequences concatenated, into windows of a fixed
/// length: window w of a shard begins at token w * stride and has window + extra tokens. No window
/// crosses from one shard to the next; a shorter remainder at the end of a shard is dropped.
/// Windows are numbered over all shards in order. They are computed, not stored, apart from a few
/// words per shard: a trillion tokens cost as much as a million.
///
/// Thread safety: immutable.
class TokenWindows {
 public:
  struct Options {
    std::uint64_t window = 0;  ///< Tokens.
    std::uint64_t stride = 0;  ///< Tokens from one window's start to the next; 0: `window`.
    std::uint64_t extra = 0;   ///< Additional tokens per window: 1 for targets shifted by one.
  };

  /// Makes the windows of a dataset of tokens: Megatron, .npy, raw, counted, shard001, and
  /// LitData's token chunks. `invalid_argument` for other datasets, for a window of 0, and if every
  /// shard is shorter than one window.
  static Result<TokenWindows> make(const ShardDataset& dataset, const Options& options);

  /// The options, with the stride filled in.
  const Options& options() const noexcept { return options_; }
  std::uint64_t count() const noexcept { return count_; }
  Dtype dtype() const noexcept { return dtype_; }
  std::uint64_t tokens_per_row() const noexcept { return tokens_per_row_; }  ///< window + extra.
  std::uint64_t row_bytes() const noexcept { return tokens_per_row_ * dtype_size_bytes(dtype_); }

  /// Returns where window `unit` is stored; `invalid_argument` if it is not below count(). Takes
  /// time logarithmic in the number of shards.
  Result<TokenSpan> locate(std::uint64_t unit) const;

  /// Tokens of the dataset, including those in no window.
  std::uint64_t token_count() const noexcept { return token_count_; }

 private:
  struct Stream {
    std::uint64_t first_unit = 0;
    std::uint64_t offset_bytes = 0;
    std::uint32_t shard = 0;
  };

  TokenWindows() = default;

  Options options_;
  Dtype dtype_ = Dtype::int32;
  std::uint64_t tokens_per_row_ = 0;
  std::uint64_t stride_bytes_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t token_count_ = 0;
  std::vector<Stream> streams_;  // shards that have a window
};

}  // namespace stoker
