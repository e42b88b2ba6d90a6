#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/mutex.h"
#include "base/work_together.h"
#include "stoker/status.h"

namespace stoker {

/// The failure with the lowest position.
struct FirstFailure {
  Status status;
  std::size_t position = 0;
};

/// Calls `work(position)` for every position below `count`, from several threads if there are
/// enough positions. The threads have ended on return, so it also works in a forked child. After a
/// failure, later positions may be skipped; of several failures, the one with the lowest position
/// is returned. What `work` throws is thrown here.
template <typename Work>
FirstFailure for_each_position(std::size_t count, const Work& work) {
  constexpr std::size_t kThreadsMax = 8;
  constexpr std::size_t kPositionsPerThread = 8;
  FirstFailure first{.status = {}, .position = count};
  Mutex mutex;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> end{count};
  const auto run = [&] {
    for (;;) {
      // relaxed: positions are all that is shared here; results are read after the join.
      const std::size_t position = next.fetch_add(1, std::memory_order_relaxed);
      if (position >= end.load(std::memory_order_relaxed)) return;
      const Status status = work(position);
      if (status.ok()) continue;
      MutexLock lock(mutex);
      if (position >= first.position) continue;
      first = {status, position};
      end.store(position, std::memory_order_relaxed);
    }
  };
  work_together(std::min(kThreadsMax, count / kPositionsPerThread), run);
  return first;
}

}  // namespace stoker
