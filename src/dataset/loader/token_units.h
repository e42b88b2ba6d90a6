/// \file
/// What a loader that reads tokens makes rows of: windows, or packs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/loader/loader.h"
#include "dataset/order/sample_ref.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_windows.h"
#include "formats/dtype.h"
#include "stoker/status.h"

namespace stoker::internal {

/// The units of all datasets of a loader, each of which becomes one row. None for a loader that
/// reads samples.
///
/// Thread safety: immutable.
class TokenUnits {
 public:
  /// Of `options.windows` or `options.packs`: one for each dataset, all of one length and dtype
  /// (`invalid_argument`).
  static Result<TokenUnits> make(const LoaderOptions& options);

  bool is_any() const noexcept { return !windows_.empty() || !packs_.empty(); }
  bool is_packs() const noexcept { return !packs_.empty(); }

  std::uint64_t count(std::uint32_t dataset) const noexcept;
  std::uint64_t tokens_per_row() const noexcept { return tokens_per_row_; }
  Dtype dtype() const noexcept { return dtype_; }  ///< As stored.
  std::uint64_t row_bytes() const noexcept { return tokens_per_row_ * dtype_size_bytes(dtype_); }
  /// The most pieces that any row has: for budgets.
  std::uint64_t pieces_max() const noexcept;

  /// The pieces of a unit, in the order of its row. A window is one piece that fills the row.
  Status locate(const SampleRef& ref, std::vector<PackPiece>& out) const;

 private:
  std::vector<std::shared_ptr<const TokenWindows>> windows_;
  std::vector<std::shared_ptr<const TokenBins>> packs_;
  std::uint64_t tokens_per_row_ = 0;
  Dtype dtype_ = Dtype::int32;
};

}  // namespace stoker::internal
