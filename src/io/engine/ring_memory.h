#pragma once

#include <atomic>

namespace stoker::internal {

/// Counts the rings that were mapped and unmapped. A ring may be mapped at an address where another
/// thread's ring was. The kernel orders the two, but ThreadSanitizer does not see liburing's system
/// calls; this counter shows it the order.
inline std::atomic<unsigned> ring_changes{0};

/// Call it after io_uring_queue_init and before io_uring_queue_exit.
inline void order_rings() noexcept {
  ring_changes.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace stoker::internal
