/// \file
/// What is in the directory of a cache, for commands. Processes that use the cache may go on.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// The cached part of one version of an object.
struct CachedObjectReport {
  std::string identity;  ///< Its URI; empty if no chunk of it can be read.
  std::uint64_t chunk_count = 0;
  std::uint64_t size_bytes = 0;   ///< Of the files.
  std::int64_t last_used_ns = 0;  ///< Since 1970, to within half a minute.
};

/// Returns the objects, largest first. `invalid_argument` if the directory is not a cache.
Result<std::vector<CachedObjectReport>> list_cache(FileOps& ops, const std::string& directory);

struct CacheVerifyReport {
  std::uint64_t chunk_count = 0;
  std::uint64_t size_bytes = 0;
  std::vector<std::string> damaged;  ///< What was wrong with each chunk that was removed.
};

/// Reads every chunk, compares it with its checksums, and removes those that are damaged: they are
/// fetched again when they are needed. `cancelled` if `stop` fires.
Result<CacheVerifyReport> verify_cache(FileOps& ops, const std::string& directory,
                                       const std::stop_token& stop = {});

/// Removes all chunks but those that are being fetched; returns the bytes of their files.
Result<std::uint64_t> clear_cache(FileOps& ops, const std::string& directory);

}  // namespace stoker
