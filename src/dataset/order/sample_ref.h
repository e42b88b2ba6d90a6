/// \file
/// References to samples, as orders return them.
#pragma once

#include <cstdint>

namespace stoker {

/// A sample of one of the datasets that a run reads: the number of the dataset in the mixture (0 if
/// there is only one), and the number of the sample or token window in it.
struct SampleRef {
  std::uint32_t dataset = 0;
  std::uint64_t sample = 0;

  bool operator==(const SampleRef&) const = default;
};

/// Consecutive samples in stored order.
struct SampleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  bool operator==(const SampleRange&) const = default;
};

}  // namespace stoker
