/// \file
/// Reads single rows of tokens, for datasets of rows by number. Loaders read many at once instead:
/// RecordFetcher::plan_rows().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataset/shard_dataset.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_rows.h"
#include "dataset/tokens/token_windows.h"
#include "stoker/status.h"

namespace stoker::internal {

// Both open only files, so they work in a forked child. `dataset` is the one of the rows.

/// Reads a window into `out`, which has windows.row_bytes().
Status read_window(const ShardDataset& dataset, const TokenWindows& windows, std::uint64_t unit,
                   std::span<std::byte> out);

/// Reads a pack into `row`, in the dtype of the file, padded with 0, with the position and document
/// of each token. Returns the number of tokens without padding.
Result<std::uint64_t> read_pack(const ShardDataset& dataset, const TokenBins& packs,
                                std::uint64_t unit, const BinRow& row);

}  // namespace stoker::internal
