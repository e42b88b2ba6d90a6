#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "stoker/status.h"

namespace stoker {

/// How a file shall be read or written with regard to the page cache. A wish; IoPath is what came
/// of it.
enum class CachePolicy : std::uint8_t {
  automatic,   ///< What pays on this device: direct for cold data on local disks, else buffered.
  buffered,    ///< Through the page cache, and left there.
  direct,      ///< Past the page cache. Fails where the filesystem cannot.
  drop_behind  ///< Buffered, and what we brought in is dropped again.
};

/// The short name, as reports have it.
std::string_view cache_policy_name(CachePolicy policy) noexcept;
/// "automatic" or "auto", "buffered", "direct", "drop_behind" or "drop-behind"; `invalid_argument`
/// lists them otherwise.
Result<CachePolicy> parse_cache_policy(std::string_view name);

/// The path a transfer really took.
enum class IoPath : std::uint8_t {
  buffered,
  direct,
  dont_cache,    ///< RWF_DONTCACHE: the kernel drops what it brought in.
  fadvise_drop,  ///< Buffered, then POSIX_FADV_DONTNEED on what was not resident before.
};

std::string_view io_path_name(IoPath path) noexcept;

/// Whether O_DIRECT pays, per device. On local block filesystems it does; elsewhere a short trial
/// tells (CephFS through FUSE is five times slower direct), and its answer is remembered.
///
/// Thread safety: every method may be called from any thread. Two callers may try the same device
/// at once; the later answer stays.
class DirectAdvisor {
 public:
  /// How long a file must be for pays_for_reads() to try it.
  static constexpr std::size_t kReadTrialBytes = std::size_t{8} << 20;

  /// For reads of the file behind both descriptors. The trial reads 4 MiB of it each way; a file
  /// too small for that, or already in the page cache, is answered with no.
  bool pays_for_reads(int buffered_fd, int direct_fd);

  /// For writes into `directory`. The trial writes a nameless scratch file each way, fdatasync
  /// included.
  bool pays_for_writes(const std::string& directory);

 private:
  using Answers = std::map<std::uint64_t, bool>;  // by device number

  Mutex mutex_;
  Answers reads_ STOKER_GUARDED_BY(mutex_);
  Answers writes_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
