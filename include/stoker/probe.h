/// \file
/// probe(): what the storage under a directory can do, found by trying and not by version number.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/status.h"

namespace stoker {

/// The findings of one probe. Plain data; field names are those of the Python object and the JSON.
struct StorageProbe {
  std::string path;
  std::string kernel;      ///< Release: "6.18.44".
  std::string filesystem;  ///< "ext4", "xfs", "nfs"; "unknown" with its magic number otherwise.

  std::string engine;         ///< The engine that `automatic` takes: "uring", "threads", "sync".
  std::string engine_reason;  ///< One line: why this one and not a faster one.
  bool registered_buffers = false;
  std::string registered_buffers_reason;  ///< Empty when they work.

  bool direct_io = false;  ///< O_DIRECT opens and reads here.
  std::uint32_t direct_memory_align_bytes = 0;
  std::uint32_t direct_offset_align_bytes = 0;
  bool dont_cache = false;  ///< RWF_DONTCACHE (Linux 6.14) works here.
  bool cachestat = false;   ///< Residency by cachestat(2) (Linux 6.5), else mincore.
  std::string read_path;    ///< What the policy `automatic` does on a cold file.
  std::string write_path;

  bool rename_noreplace = false;    ///< An atomic create of a directory name.
  bool directory_fsync = false;     ///< Names can be made durable. Without it nothing is.
  bool hard_links = false;          ///< Unchanged tensors can be stored once.
  std::string huge_pages;           ///< "hugetlb", "transparent" or "none", for a fresh arena.
  std::uint64_t memlock_bytes = 0;  ///< RLIMIT_MEMLOCK; UINT64_MAX means unlimited.
};

/// Tries everything in `directory`, with scratch files that are gone on return. Takes some
/// milliseconds on a local filesystem. Fails if the directory cannot be written to.
Result<StorageProbe> probe(const std::string& directory);

}  // namespace stoker
