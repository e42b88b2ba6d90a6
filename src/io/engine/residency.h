#pragma once

#include <cstdint>

#include "stoker/status.h"

namespace stoker {

/// How much of a range of a file the page cache holds.
struct Residency {
  std::uint64_t resident_bytes = 0;  ///< Whole pages; never more than `size_bytes`.
  std::uint64_t size_bytes = 0;      ///< The part of the range inside the file.
  bool by_cachestat = false;         ///< Else by mincore, on kernels before 6.5.

  double share() const noexcept {
    return size_bytes == 0 ? 0
                           : static_cast<double>(resident_bytes) / static_cast<double>(size_bytes);
  }
};

/// Counts without touching: neither way starts read-ahead, which a RWF_NOWAIT read would.
/// A `size_bytes` of 0 means to the end of the file.
Result<Residency> residency(int fd, std::uint64_t offset_bytes = 0, std::uint64_t size_bytes = 0);

/// Writes dirty pages of the file out and asks the kernel to drop all of them. The kernel may keep
/// some; residency() tells. It evicts other processes' warm pages of this file as well.
Status evict(int fd);

namespace testing {
/// The way of older kernels, for comparison.
Result<Residency> residency_by_mincore(int fd, std::uint64_t offset_bytes,
                                       std::uint64_t size_bytes);
}  // namespace testing

}  // namespace stoker
