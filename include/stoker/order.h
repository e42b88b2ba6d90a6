/// \file
/// Which sample comes when: the orders that there are, their parameters, and what happens at the
/// end of an epoch. docs/formats/order.md defines each order.
#pragma once

#include <cstdint>
#include <string_view>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

/// A sample of one of the datasets that a run reads: the number of the dataset in the mixture (0 if
/// there is only one), and the number of the sample or token window in it.
struct SampleRef {
  std::uint32_t dataset = 0;
  std::uint64_t sample = 0;

  bool operator==(const SampleRef&) const = default;
};

/// The numbers are part of the cursor's encoding: append only.
enum class Shuffle : std::uint8_t {
  off = 0,        ///< Stored order.
  global = 1,     ///< A uniform permutation of all samples, different each epoch.
  block = 2,      ///< Blocks of neighbors in lanes, shuffled in windows: whole blocks are read.
  resampled = 3,  ///< Drawn independently, with replacement.
};

/// "off", "global", "block", "resampled".
STOKER_API std::string_view shuffle_name(Shuffle shuffle) noexcept;
/// The message of `invalid_argument` lists the valid names.
STOKER_API Result<Shuffle> parse_shuffle(std::string_view name);

/// Parameters of an order. Everything after `sample_count` is for Shuffle::block.
struct OrderOptions {
  Shuffle shuffle = Shuffle::global;
  std::uint64_t seed = 0;
  /// 1 to 2^62. A loader takes it from its data; of a mixture it is the length of an epoch, and 0
  /// the sum of the datasets' samples.
  std::uint64_t sample_count = 0;
  /// S: samples in a block. 0: a loader chooses blocks of 8 to 16 MiB.
  std::uint64_t block_samples = 0;
  std::uint64_t window_blocks = 0;  ///< K: blocks mixed with each other. 0: 16.
  std::uint64_t lanes = 0;          ///< C: divides `deal_samples`. 0: the most, up to 64.
  /// G0: the global batch size for which the lanes were dealt. The cursor stores it, so that a
  /// later change of the global batch size divides the same sequence of positions differently.
  std::uint64_t deal_samples = 0;

  bool operator==(const OrderOptions&) const = default;
};

/// How the last positions of an epoch are handled if they do not fill a global batch. The numbers
/// are part of the cursor's encoding: append only.
enum class Tail : std::uint8_t {
  drop = 0,  ///< The positions are skipped.
  keep = 1,  ///< A short batch: some ranks get short or empty parts of it.
  wrap = 2,  ///< The batch is filled from the start of the same epoch.
  pad = 3,   ///< As `wrap`, but the added samples are marked as not valid.
};

/// "drop", "keep", "wrap", "pad".
STOKER_API std::string_view tail_name(Tail tail) noexcept;
/// The message of `invalid_argument` lists the valid names.
STOKER_API Result<Tail> parse_tail(std::string_view name);

}  // namespace stoker
