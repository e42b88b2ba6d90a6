/// \file
/// Storage as plain functions: many reads at once, durable writes, and what is in the page cache.
///
/// Thread safety: every function may be called from any thread, several at once, and in a forked
/// child. None keeps anything when it returns; none installs a signal handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

/// How bytes are moved between files and memory.
enum class EngineKind : std::uint8_t {
  automatic,  ///< The fastest that works here: see probe().
  uring,      ///< io_uring.
  threads,    ///< Blocking calls on several threads.
  sync,       ///< Blocking calls, one at a time.
};

/// "auto", "uring", "threads", "sync".
STOKER_API std::string_view engine_kind_name(EngineKind kind) noexcept;
/// Accepts "auto", "uring", "threads" and "sync"; the `invalid_argument` for others lists them.
STOKER_API Result<EngineKind> parse_engine_kind(std::string_view name);

/// The requested use of the page cache when a file is read or written.
enum class CachePolicy : std::uint8_t {
  automatic,  ///< The fastest: direct for uncached data on local disks, usually buffered elsewhere.
  buffered,   ///< Through the page cache; the pages stay there.
  direct,     ///< Bypasses the page cache. Fails if the filesystem does not support it.
  drop_behind,  ///< Buffered; the pages added to the cache are dropped again.
};

/// Returns the name used in reports, such as "drop_behind".
STOKER_API std::string_view cache_policy_name(CachePolicy policy) noexcept;
/// Accepts "automatic" or "auto", "buffered", "direct", and "drop_behind" or "drop-behind"; the
/// `invalid_argument` for other names lists them.
STOKER_API Result<CachePolicy> parse_cache_policy(std::string_view name);

/// A range of a file to read.
struct FileRange {
  static constexpr std::uint64_t kToEnd = std::numeric_limits<std::uint64_t>::max();

  std::string path;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = kToEnd;
  /// Where its bytes go: exactly as long as the range. Null: to memory of read_ranges().
  std::span<std::byte> into = {};
};

struct ReadRangesOptions {
  CachePolicy policy = CachePolicy::automatic;
  EngineKind engine = EngineKind::automatic;
  /// Called on the calling thread, about every 50 ms. Return true to end with `cancelled`.
  std::function<bool()> is_interrupted = {};
};

/// The bytes of ranges. They are valid as long as `memory`.
struct RangeBytes {
  std::shared_ptr<const void> memory;
  std::vector<std::span<std::byte>> ranges;  ///< In the order of the request.
};

/// Reads ranges of files, many at once. Any order, any number of files; ranges may overlap. What is
/// in the page cache is read from there, and the rest past it where that is faster.
///
/// `io_error` for a range that ends past the end of its file, `invalid_argument` for a path that is
/// not a regular file or an `into` of another length: both before a byte is read. An error names
/// path, offset and length; the contents of `into` are then undefined. On return nothing is in
/// flight.
STOKER_API Result<RangeBytes> read_ranges(std::span<const FileRange> ranges,
                                          const ReadRangesOptions& options = {});

/// What a durable write does about a file of that name.
enum class IfExists : std::uint8_t {
  replace,  ///< Replaces it.
  fail,     ///< Fails with `already_exists`.
};

/// Replaces the contents of `path`, atomically and durably. The bytes are written under another
/// name in the same directory, synced, renamed, and the directory is synced. Whenever the machine
/// stops, readers find either the old file or the new one, complete; after an OK, the new one is
/// durable. After an error nothing was changed, unless only the last sync failed: then the new file
/// may exist without being durable.
STOKER_API Status write_durable(const std::string& path, std::span<const std::byte> bytes,
                                IfExists if_exists = IfExists::replace);

/// How much of a range of a file is in the page cache.
struct Residency {
  std::uint64_t resident_bytes = 0;  ///< Whole pages; never more than `size_bytes`.
  std::uint64_t size_bytes = 0;      ///< The part of the range inside the file.
  bool by_cachestat = false;         ///< False: measured with mincore(2), on kernels before 6.5.

  double share() const noexcept {
    return size_bytes == 0 ? 0
                           : static_cast<double>(resident_bytes) / static_cast<double>(size_bytes);
  }
};

/// Measures how much of a file, or of `size_bytes` from an offset, is in the page cache, without
/// changing it. A `size_bytes` of 0 means to the end of the file.
STOKER_API Result<Residency> residency(const std::string& path, std::uint64_t offset_bytes = 0,
                                       std::uint64_t size_bytes = 0);
/// Asks the kernel to drop a file from the page cache, after writing its dirty pages, for every
/// process. The kernel may keep some: returns what is left.
STOKER_API Result<Residency> evict(const std::string& path);

}  // namespace stoker
