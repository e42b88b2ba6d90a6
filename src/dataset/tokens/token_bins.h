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

#include "dataset/dataset.h"
#include "dataset/index/checked_blocks.h"
#include "formats/dtype.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// One document, or a part of one that is longer than a row, in its pack.
struct PackPiece {
  std::uint32_t shard = 0;
  ByteRange range = {};         ///< In the shard, uncompressed.
  std::uint64_t at_bytes = 0;   ///< Where it begins in its row.
  bool begins_document = true;  ///< False for the later parts of a long one.
  /// Of the piece, where the index has checksums and the piece is a whole document.
  std::optional<std::uint32_t> crc32c = {};

  bool operator==(const PackPiece&) const = default;
};

/// Packs: rows of at most `length` tokens, filled with whole documents by best fit (best_fit.h), in
/// stored order. A document is a sample of the dataset; one longer than a row is cut into rows and
/// a rest, and one without tokens is in no pack. What is left at the end of a row belongs to
/// nobody. Packs may hold documents of several shards.
///
/// They are computed once, in time proportional to the samples, and kept in a file beside the
/// index, one for each length; docs/formats/packs.md has its bytes.
///
/// Thread safety: const methods from any thread.
class TokenBins {
 public:
  static constexpr std::uint64_t kLengthMax = std::uint64_t{1} << 26;

  struct Options {
    std::uint64_t length = 0;  ///< Tokens of a row.
    /// Where the file goes when the dataset's own directory cannot be written to; empty: nowhere.
    std::string cache_directory = {};
    bool rebuild = false;    ///< Even if there is one that fits.
    bool in_memory = false;  ///< Keep them in memory where neither place takes the file.
    std::stop_token stop = {};
    FileOps* ops = nullptr;  ///< What publishes it; null: posix_file_ops(). For crash tests.
  };

  /// Opens the packs of a dataset of tokens (see TokenWindows), which are built now if there are
  /// none that fit. One process builds, others wait for it. `invalid_argument` for other datasets,
  /// for a length of 0 or above kLengthMax, and where there are no tokens.
  static Result<TokenBins> open(std::shared_ptr<const Dataset> dataset, const Options& options);

  /// The same over bytes that outlive it: `corrupt` if their frame is damaged, `unsupported` for
  /// another major version, `not_found` if they are packs of other samples or of another length.
  static Result<TokenBins> parse(std::shared_ptr<const Dataset> dataset, std::uint64_t length,
                                 std::span<const std::byte> bytes);

  /// Packs all documents and lays the file out, without publishing it.
  static Result<std::vector<std::byte>> build(const Dataset& dataset, std::uint64_t length,
                                              const std::stop_token& stop = {});

  std::uint64_t count() const noexcept { return pack_count_; }
  std::uint64_t length() const noexcept { return length_; }
  std::uint64_t row_bytes() const noexcept { return length_ * dtype_size_bytes(dtype_); }
  Dtype dtype() const noexcept { return dtype_; }
  /// The most pieces that any pack has: for budgets.
  std::uint64_t pieces_max() const noexcept { return pieces_max_; }

  /// The pieces of pack `unit`, in the order of its row; `out` keeps its memory from call to call.
  /// `invalid_argument` if it is not less than count(), `corrupt` if the file is damaged there.
  Status locate(std::uint64_t unit, std::vector<PackPiece>& out) const;

  /// Checks every block now.
  Status verify() const;

 private:
  TokenBins() = default;
  Result<std::uint64_t> entry(std::uint64_t number) const;

  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const void> mapping_;  // keeps entries_ alive
  CheckedBlocks entries_;
  Dtype dtype_ = Dtype::int32;
  std::uint64_t length_ = 0;
  std::uint64_t pack_count_ = 0;
  std::uint64_t piece_count_ = 0;
  std::uint64_t pieces_max_ = 0;
};

}  // namespace stoker
