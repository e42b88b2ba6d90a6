/// \file
/// An order over several datasets, by weight. docs/formats/order.md defines it.
///
/// Positions run in cycles of kMixtureSlots slots. Each dataset owns a share of the slots, exact in
/// every cycle; the slots of a cycle are permuted. A cycle with n slots of a dataset uses the next
/// n positions of its own order, in any order: over whole cycles a dataset is used evenly.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// L: slots in a cycle; the smallest share is 1 / 65,536.
inline constexpr std::uint64_t kMixtureSlots = 65'536;

struct MixturePart {
  std::uint64_t sample_count = 0;
  /// Relative to the sum of all weights; more than 0.
  double weight = 1;
};

struct MixtureOptions {
  /// The order inside each dataset; its seed is derived from `seed`. A mixture has no lanes:
  /// `lanes` and `deal_samples` must be 0 or 1 for block order. `sample_count` is the length of an
  /// epoch in positions; 0: the sum of the datasets' samples.
  OrderOptions order;
  std::vector<MixturePart> parts;
};

/// Returns how many of the kMixtureSlots each weight gets, by largest remainder; of equal
/// remainders the first wins. `invalid_argument`: no weights, too many, one that is not a positive
/// finite number, or one too small for a slot; the message has the dataset's number and the
/// smallest weight that suffices.
Result<std::vector<std::uint32_t>> mixture_slots(std::span<const double> weights);

/// Returns the order options of a mixture with every default filled in, as its cursor stores them.
Result<OrderOptions> resolve_mixture(const MixtureOptions& options);

/// `invalid_argument` as for mixture_slots() and resolve_order().
Result<std::unique_ptr<SampleOrder>> make_mixture_order(const MixtureOptions& options);

/// Returns the fingerprint that a mixture's cursor stores: a hash of the datasets' fingerprints in
/// order, their sample counts and their shares. `invalid_argument` if there are not as many
/// `fingerprints` as parts, and as for mixture_slots().
Result<Digest128> mixture_fingerprint(std::span<const Digest128> fingerprints,
                                      std::span<const MixturePart> parts);

}  // namespace stoker
