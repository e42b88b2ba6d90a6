#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "stoker/io.h"
#include "stoker/status.h"

namespace stoker {

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
