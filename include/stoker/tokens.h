/// \file
/// Tokens: token arrays as rows of a fixed length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/api.h"
#include "stoker/dataset.h"
#include "stoker/digest.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

namespace internal {
class TokensInside;
struct TokensState;
}  // namespace internal

/// The column of tokens in batches, and those that packs have besides, int32 and of the same shape:
/// the distance of each token from the start of its piece of a document, and the number of that
/// piece in the row, from 0. Padding counts as a separate piece, with the number -1.
inline constexpr std::string_view kTokens = "tokens";
inline constexpr std::string_view kPositionIds = "position_ids";
inline constexpr std::string_view kDocumentIds = "document_ids";

/// How tokens are divided into rows. Exactly one of `window` and `pack` is not 0.
struct TokensOptions {
  /// Rows are windows over all tokens of a shard, regardless of documents: window w begins at token
  /// w * stride. None crosses from one shard to the next; the rest at the end of a shard is
  /// dropped. Nothing is built or stored for them.
  std::uint64_t window = 0;
  std::uint64_t stride = 0;  ///< Tokens from one window's start to the next; 0: `window`.
  std::uint64_t extra = 0;   ///< Additional tokens per window: 1 for targets shifted by one.
  /// Rows are packs of whole documents of at most this many tokens, combined by best fit. Which
  /// document is in which pack is computed once and stored beside the index.
  std::uint64_t pack = 0;
  std::int64_t pad = 0;  ///< The token that packs are padded with.
  /// int64 widens tokens, as embeddings need. Default: as stored.
  std::optional<Dtype> dtype = {};
  /// As in DatasetOptions, for the packs.
  std::string cache_directory = {};
};

/// One row in memory of its own.
struct TokenRow {
  std::vector<std::byte> tokens;  ///< Elements of the dataset's dtype.
  /// Number of tokens without padding.
  std::uint64_t length = 0;
  std::vector<std::int32_t> position_ids;  ///< Empty for windows.
  std::vector<std::int32_t> document_ids;  ///< Empty for windows.
};

/// Rows of tokens, or some of them. Copies share the open files.
///
/// Thread safety: every method from any thread, also in a forked child, as for Dataset.
class STOKER_API Tokens {
 public:
  /// `invalid_argument` if the data are not tokens (Megatron, .npy, raw, counted, shard001,
  /// LitData's token chunks), if no shard is as long as one window, and if `dataset` is a
  /// selection: select rows instead.
  static Result<Tokens> open(const Dataset& dataset, const TokensOptions& options);

  Tokens(const Tokens& other) noexcept;
  Tokens& operator=(const Tokens& other) noexcept;
  ~Tokens();

  std::uint64_t size() const noexcept;
  /// Tokens in a row: window + extra, or pack.
  std::uint64_t row_tokens() const noexcept;
  /// The type of the elements in rows and batches.
  Dtype dtype() const noexcept;
  /// Tokens of all shards, including those in no window.
  Result<std::uint64_t> token_count() const;
  /// Reads a row below size().
  Result<TokenRow> read(std::uint64_t number) const;

  /// As those of Dataset.
  Result<Tokens> select(std::span<const std::uint64_t> numbers) const;
  Result<Tokens> slice(std::uint64_t first, std::uint64_t count) const;
  Result<std::vector<Tokens>> split(std::span<const double> parts,
                                    std::optional<std::uint64_t> seed = {}) const;

  /// Identifies the rows and their order, independent of machine and directory.
  Digest128 fingerprint() const;

 private:
  friend class internal::TokensInside;
  explicit Tokens(std::shared_ptr<const internal::TokensState> state) noexcept;
  std::shared_ptr<const internal::TokensState> state_;
};

}  // namespace stoker
