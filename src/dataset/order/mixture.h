/// \file
/// Several datasets in one order, by weight. docs/formats/order.md defines it.
///
/// Positions run in cycles of kMixtureSlots slots. Each dataset owns a share of the slots, exact in
/// every cycle; the slots of a cycle are permuted. The k-th use of a dataset is position k of its
/// own order, so each dataset is gone through completely before it begins again, at its own pace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// L: slots in a cycle, and so the finest share is 1 / 65,536.
inline constexpr std::uint64_t kMixtureSlots = 65'536;

struct MixturePart {
  std::uint64_t sample_count = 0;
  /// Relative to the sum of all; more than 0.
  double weight = 1;
};

struct MixtureOptions {
  /// Of the datasets; their `seed`, and of block order `block_samples` and `window_blocks`. Lanes
  /// are not dealt in a mixture: `lanes` and `deal_samples` are 0 or 1. `sample_count` is the
  /// length of an epoch in positions; 0 takes the sum of the datasets' samples.
  OrderOptions order;
  std::vector<MixturePart> parts;
};

/// How many of the kMixtureSlots each weight gets, by largest remainder; of equal remainders the
/// first wins. `invalid_argument`: no weights, one that is not a positive finite number, or one too
/// small to get a slot, by its number and with the least that would do.
Result<std::vector<std::uint32_t>> mixture_slots(std::span<const double> weights);

/// The order options of a mixture with defaults put in, as its cursor keeps them.
Result<OrderOptions> resolve_mixture(const MixtureOptions& options);

/// `invalid_argument` as mixture_slots() and resolve_order() say, with the dataset's number.
Result<std::unique_ptr<SampleOrder>> make_mixture_order(const MixtureOptions& options);

/// One fingerprint for the datasets in their order, their sample counts and their shares: what a
/// mixture's cursor keeps. As many `fingerprints` as parts; fails as mixture_slots() does.
Result<Digest128> mixture_fingerprint(std::span<const Digest128> fingerprints,
                                      std::span<const MixturePart> parts);

}  // namespace stoker
