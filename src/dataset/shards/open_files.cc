#include "dataset/shards/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>

namespace stoker {
namespace {

constexpr std::size_t kLimitFallback = 1024;

/// Sum of all shares. Relaxed: no other data depends on it.
std::atomic<std::size_t> taken_count{0};

/// Read each time: a program may raise its limit while it runs.
std::size_t count_max() {
  rlimit limit{};
  const bool is_known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  return (is_known ? limit.rlim_cur : kLimitFallback) / 4;
}

}  // namespace

OpenFilesShare OpenFilesShare::take(std::size_t wanted, std::size_t parts, std::size_t least) {
  const std::size_t most = count_max();
  std::size_t taken = taken_count.load(std::memory_order_relaxed);
  for (;;) {
    const std::size_t part = (most - std::min(most, taken)) / parts;
    const std::size_t count = std::max(least, std::min(wanted, part));
    if (taken_count.compare_exchange_weak(taken, taken + count, std::memory_order_relaxed))
      return OpenFilesShare(count);
  }
}

OpenFilesShare OpenFilesShare::insist(std::size_t count) {
  taken_count.fetch_add(count, std::memory_order_relaxed);
  return OpenFilesShare(count);
}

OpenFilesShare::~OpenFilesShare() {
  taken_count.fetch_sub(count_, std::memory_order_relaxed);
}

}  // namespace stoker
