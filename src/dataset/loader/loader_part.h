/// \file
/// A dataset that a loader reads, as its samples, windows or packs, all or some of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/checksum.h"
#include "dataset/dataset.h"
#include "dataset/order/selected_order.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_windows.h"

namespace stoker {

/// Units are the samples of the dataset, or its windows or packs. `dataset` is never null.
struct LoaderPart {
  std::shared_ptr<const Dataset> dataset = {};
  /// Rows of tokens in place of its samples: windows or packs. All parts alike.
  std::shared_ptr<const TokenWindows> windows = {};
  std::shared_ptr<const TokenBins> packs = {};
  /// What fills packs up, modulo 2^64, as the field of the tokens says it: part of the fingerprint.
  std::uint64_t pad = 0;
  /// Some of its samples, windows or packs; nothing: all of them.
  std::optional<Selection> selection = {};
  /// The share in a mixture, relative to the other parts'. One part with a weight is a mixture too.
  std::optional<double> weight = {};

  /// Selected or not.
  std::uint64_t whole_count() const noexcept;
  std::uint64_t selected_count() const noexcept;
  /// The bytes of a row of tokens; 0 of samples.
  std::uint64_t row_bytes() const noexcept;
  /// Identifies the units and their order.
  Digest128 fingerprint() const;
  /// As version 0.1 made it, which did not look at what fills packs up.
  Digest128 old_fingerprint() const;
};

}  // namespace stoker
