/// \file
/// What an order gives out.
#pragma once

#include <cstdint>

namespace stoker {

/// A sample of one of the datasets that a run reads: which dataset of the mixture (0 where there is
/// one alone), and the sample, or the token window, in it.
struct SampleRef {
  std::uint32_t dataset = 0;
  std::uint64_t sample = 0;

  bool operator==(const SampleRef&) const = default;
};

/// Samples that lie one after the other in stored order.
struct SampleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  bool operator==(const SampleRange&) const = default;
};

}  // namespace stoker
