/// \file
/// A dataset that a loader reads: its samples, windows or packs, all or a selection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/checksum.h"
#include "dataset/order/selected_order.h"
#include "dataset/shard_dataset.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_windows.h"

namespace stoker {

/// A part's units are the samples of its dataset, or its windows or packs. `dataset` is never null.
struct LoaderPart {
  std::shared_ptr<const ShardDataset> dataset = {};
  /// Windows or packs to read instead of samples. The same kind in all parts.
  std::shared_ptr<const TokenWindows> windows = {};
  std::shared_ptr<const TokenBins> packs = {};
  /// Padding value of packs, modulo 2^64, as the tokens' field specifies it: part of the
  /// fingerprint.
  std::uint64_t pad = 0;
  /// The selected units; nothing: all of them.
  std::optional<Selection> selection = {};
  /// Share in a mixture, relative to the other parts. A single part with a weight is a mixture too.
  std::optional<double> weight = {};

  /// A slice of all units, in order, is no selection: its fingerprint is the dataset's. A list
  /// always is one.
  void drop_whole_selection() noexcept;

  /// Number of units, selected or not.
  std::uint64_t whole_count() const noexcept;
  std::uint64_t selected_count() const noexcept;
  /// Size of a row of tokens; 0 for samples.
  std::uint64_t row_bytes() const noexcept;
  /// Identifies the units and their order.
  Digest128 fingerprint() const;
  /// The fingerprint of version 0.1, which did not include the padding value of packs.
  Digest128 old_fingerprint() const;
};

}  // namespace stoker
