#pragma once

#include <cstdint>

// Parts of the kernel's interface that the headers of Debian 12 (6.1, glibc 2.36) lack. Whether the
// running kernel has them is found by trying.

namespace stoker {

/// preadv2/pwritev2 flag, Linux 6.14: buffered I/O that drops the pages it added to the page cache.
inline constexpr int kRwfDontCache = 0x00000080;

/// cachestat(2), Linux 6.5; the number is the same on every architecture.
inline constexpr long kSysCachestat = 451;

struct CachestatRange {
  std::uint64_t offset_bytes;
  std::uint64_t size_bytes;  ///< 0: to the end of the file.
};
struct CachestatCounts {  ///< In pages.
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

/// statx(2) with STATX_DIOALIGN, Linux 6.1.
inline constexpr std::uint32_t kStatxDioAlign = 0x00002000;

/// The kernel's struct statx; only the direct-I/O fields are read.
struct KernelStatx {
  std::uint32_t mask;
  std::uint32_t other[37];
  std::uint32_t dio_memory_align_bytes;
  std::uint32_t dio_offset_align_bytes;
  std::uint64_t spare[12];
};
static_assert(sizeof(KernelStatx) == 256, "struct statx is 256 bytes by the kernel's ABI");

/// madvise(2) advice, Linux 5.14: populates the page tables for writing, like touching every page.
inline constexpr int kMadvPopulateWrite = 23;

}  // namespace stoker
