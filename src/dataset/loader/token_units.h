/// \file
/// The units of a loader that reads tokens: windows or packs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataset/loader/loader_run.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_windows.h"
#include "stoker/dtype.h"
#include "stoker/order.h"
#include "stoker/status.h"

namespace stoker::internal {

/// The units of all datasets of a loader; each unit becomes one row. Empty for a loader that reads
/// samples.
///
/// Thread safety: immutable.
class TokenUnits {
 public:
  /// Takes `options.windows` or `options.packs`. `invalid_argument` unless there is one per
  /// dataset, all of the same length and, unless `options.fields` asks for int64, of the same
  /// dtype.
  static Result<TokenUnits> make(const LoaderRunOptions& options);

  bool is_any() const noexcept { return !windows_.empty() || !packs_.empty(); }
  bool is_packs() const noexcept { return !packs_.empty(); }

  std::uint64_t count(std::uint32_t dataset) const noexcept;
  std::uint64_t tokens_per_row() const noexcept { return tokens_per_row_; }
  /// The stored dtype of a dataset.
  Dtype dtype(std::uint32_t dataset) const noexcept {
    return is_packs() ? packs_[dataset]->dtype() : windows_[dataset]->dtype();
  }
  std::uint64_t row_bytes(std::uint32_t dataset) const noexcept {
    return tokens_per_row_ * dtype_size_bytes(dtype(dataset));
  }
  std::uint64_t row_bytes_max() const noexcept { return row_bytes_max_; }
  /// Maximum number of pieces of a row: for budgets.
  std::uint64_t pieces_max() const noexcept;

  /// Sets `out` to the pieces of a unit, in the order of its row. A window is one piece that fills
  /// the row.
  Status locate(const SampleRef& ref, std::vector<BinPiece>& out) const;

 private:
  std::vector<std::shared_ptr<const TokenWindows>> windows_;
  std::vector<std::shared_ptr<const TokenBins>> packs_;
  std::uint64_t tokens_per_row_ = 0;
  std::uint64_t row_bytes_max_ = 0;
};

}  // namespace stoker::internal
