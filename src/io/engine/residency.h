#pragma once

#include <cstdint>

#include "stoker/status.h"

namespace stoker {

/// How much of a range of a file is in the page cache.
struct Residency {
  std::uint64_t resident_bytes = 0;  ///< Whole pages; never more than `size_bytes`.
  std::uint64_t size_bytes = 0;      ///< The part of the range inside the file.
  bool by_cachestat = false;         ///< False: measured with mincore(2), on kernels before 6.5.

  double share() const noexcept {
    return size_bytes == 0 ? 0
                           : static_cast<double>(resident_bytes) / static_cast<double>(size_bytes);
  }
};

/// Measures how much of a range is cached, without starting read-ahead, as a RWF_NOWAIT read would.
/// A `size_bytes` of 0 means to the end of the file.
Result<Residency> residency(int fd, std::uint64_t offset_bytes = 0, std::uint64_t size_bytes = 0);

/// Writes back the dirty pages of the file and asks the kernel to drop all its pages, including
/// those that other processes use. The kernel may keep some; residency() tells.
Status evict(int fd);

namespace testing {
/// Measures with mincore(2), as on older kernels, for comparison.
Result<Residency> residency_by_mincore(int fd, std::uint64_t offset_bytes,
                                       std::uint64_t size_bytes);
}  // namespace testing

}  // namespace stoker
