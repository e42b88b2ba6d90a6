#pragma once

#include <cstdint>

// Parts of the kernel's interface that are newer than the headers of Debian 12 (6.1, glibc 2.36).
// Declared here with their numbers; whether the running kernel has them is found by trying.

namespace stoker {

/// preadv2/pwritev2 flag, Linux 6.14: buffered, but the pages it brought in are dropped.
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

/// The kernel's struct statx, of which only the direct-I/O fields are read here.
struct KernelStatx {
  std::uint32_t mask;
  std::uint32_t other[37];
  std::uint32_t dio_memory_align_bytes;
  std::uint32_t dio_offset_align_bytes;
  std::uint64_t spare[12];
};
static_assert(sizeof(KernelStatx) == 256, "struct statx is 256 bytes by the kernel's ABI");

/// madvise(2), Linux 5.14: populate page tables for writing, that is, touch now.
inline constexpr int kMadvPopulateWrite = 23;

}  // namespace stoker
