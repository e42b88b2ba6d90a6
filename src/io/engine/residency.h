#pragma once

#include <cstdint>

#include "stoker/io.h"
#include "stoker/status.h"

namespace stoker {

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
