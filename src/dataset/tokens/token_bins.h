/// \file
/// Documents packed into rows of a fixed number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/index/checked_blocks.h"
#include "dataset/shard_dataset.h"
#include "io/files/file_ops.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// A document in its pack, or a part of a document that is longer than a row.
struct BinPiece {
  std::uint32_t shard = 0;
  ByteRange range = {};         ///< In the shard, uncompressed.
  std::uint64_t at_bytes = 0;   ///< Offset in its row.
  bool begins_document = true;  ///< False for later parts of a long document.
  /// Checksum of the piece, if the index has checksums and the piece is a whole document.
  std::optional<std::uint32_t> crc32c = {};

  bool operator==(const BinPiece&) const = default;
};

/// Packs: rows of at most `length` tokens, filled with whole documents by best fit (best_fit.h), in
/// stored order. A document is a sample of the dataset; one longer than a row is cut into full rows
/// and a remainder, and one without tokens is in no pack. The space left at the end of a row is
/// unused. A pack may contain documents of several shards.
///
/// Packs are computed once, in time proportional to the number of samples, and stored in a file
/// next to the index, one per length; docs/formats/packs.md defines its format.
///
/// Thread safety: const methods from any thread.
class TokenBins {
 public:
  static constexpr std::uint64_t kLengthMax = std::uint64_t{1} << 26;

  struct Options {
    std::uint64_t length = 0;  ///< Tokens per row.
    /// Directory for the file if the dataset's own directory is not writable; empty: none.
    std::string cache_directory = {};
    bool rebuild = false;    ///< Build the file even if a matching one exists.
    bool in_memory = false;  ///< Keep the packs in memory if neither directory is writable.
    std::stop_token stop = {};
    FileOps* ops = nullptr;  ///< Publishes the file; null: posix_file_ops(). For crash tests.
  };

  /// Opens the packs of a dataset of tokens (see TokenWindows); builds them if there is no matching
  /// file. One process builds, others wait for it. `invalid_argument` for other datasets, for a
  /// length of 0 or above kLengthMax, and if there are no tokens.
  static Result<TokenBins> open(std::shared_ptr<const ShardDataset> dataset,
                                const Options& options);

  /// Opens packs in memory; `bytes` must outlive the result. `corrupt` if the frame is damaged,
  /// `unsupported` for another major version, `not_found` if the packs are of other samples or
  /// another length.
  static Result<TokenBins> parse(std::shared_ptr<const ShardDataset> dataset, std::uint64_t length,
                                 std::span<const std::byte> bytes);

  /// Packs all documents and returns the file's bytes, without publishing them.
  static Result<std::vector<std::byte>> build(const ShardDataset& dataset, std::uint64_t length,
                                              const std::stop_token& stop = {});

  std::uint64_t count() const noexcept { return pack_count_; }
  std::uint64_t length() const noexcept { return length_; }
  std::uint64_t row_bytes() const noexcept { return length_ * dtype_size_bytes(dtype_); }
  Dtype dtype() const noexcept { return dtype_; }
  /// Maximum number of pieces of a pack: for budgets.
  std::uint64_t pieces_max() const noexcept { return pieces_max_; }

  /// Sets `out` to the pieces of pack `unit`, in the order of its row; `out` keeps its memory from
  /// call to call. `invalid_argument` if `unit` is not below count(), `corrupt` if the file is
  /// damaged there.
  Status locate(std::uint64_t unit, std::vector<BinPiece>& out) const;

  /// Verifies the checksum of every block: `corrupt` if one is damaged.
  Status verify() const;

 private:
  TokenBins() = default;
  Result<std::uint64_t> entry(std::uint64_t number) const;

  std::shared_ptr<const ShardDataset> dataset_;
  std::shared_ptr<const void> mapping_;  // keeps entries_ alive
  CheckedBlocks entries_;
  Dtype dtype_ = Dtype::int32;
  std::uint64_t length_ = 0;
  std::uint64_t pack_count_ = 0;
  std::uint64_t piece_count_ = 0;
  std::uint64_t pieces_max_ = 0;
};

}  // namespace stoker
