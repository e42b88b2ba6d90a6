#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "stoker/status.h"

namespace stoker {

/// The requested use of the page cache when a file is read or written. IoPath is the path that a
/// transfer takes as a result.
enum class CachePolicy : std::uint8_t {
  automatic,  ///< The fastest: direct for uncached data on local disks, usually buffered elsewhere.
  buffered,   ///< Through the page cache; the pages stay there.
  direct,     ///< Bypasses the page cache. Fails if the filesystem does not support it.
  drop_behind  ///< Buffered; the pages added to the cache are dropped again.
};

/// Returns the name used in reports, such as "drop_behind".
std::string_view cache_policy_name(CachePolicy policy) noexcept;
/// Accepts "automatic" or "auto", "buffered", "direct", and "drop_behind" or "drop-behind"; the
/// `invalid_argument` for other names lists them.
Result<CachePolicy> parse_cache_policy(std::string_view name);

/// The path that a transfer takes.
enum class IoPath : std::uint8_t {
  buffered,
  direct,
  dont_cache,    ///< RWF_DONTCACHE: the kernel drops the pages that the transfer added.
  fadvise_drop,  ///< Buffered, then POSIX_FADV_DONTNEED; for ranges that were not cached before.
};

std::string_view io_path_name(IoPath path) noexcept;

/// Tells for each device whether O_DIRECT is faster. It is on local block filesystems; elsewhere a
/// short trial decides (CephFS through FUSE is five times slower with O_DIRECT), and the answer is
/// remembered.
///
/// Thread safety: every method may be called from any thread. Two callers may try the same device
/// at once; the later answer is kept.
class DirectAdvisor {
 public:
  /// Minimum length of a file for a trial by pays_for_reads().
  static constexpr std::size_t kReadTrialBytes = std::size_t{8} << 20;

  /// Whether direct reads of the file behind both descriptors are faster. The trial reads 4 MiB
  /// each way. Returns false, without a trial, for a file that is too short or partly in the page
  /// cache.
  bool pays_for_reads(int buffered_fd, int direct_fd);

  /// Whether direct writes into `directory` are faster. The trial writes a nameless scratch file
  /// each way, including fdatasync.
  bool pays_for_writes(const std::string& directory);

 private:
  using Answers = std::map<std::uint64_t, bool>;  // by device number

  Mutex mutex_;
  Answers reads_ STOKER_GUARDED_BY(mutex_);
  Answers writes_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
