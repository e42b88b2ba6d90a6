#pragma once

#include <atomic>

namespace stoker::internal {

/// Counts the rings that were mapped and unmapped. A ring may come to lie where another thread's
/// was. The kernel orders the two; ThreadSanitizer, which sees nothing of liburing's system calls,
/// has to be shown.
inline std::atomic<unsigned> ring_changes{0};

/// To be called after io_uring_queue_init, and before io_uring_queue_exit.
inline void order_rings() noexcept {
  ring_changes.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace stoker::internal
