/// \file
/// probe(): finds out what the storage under a directory supports, by trying each feature instead
/// of comparing version numbers.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

/// The result of one probe. Plain data; the Python object and the JSON use the same field names.
struct StorageProbe {
  std::string path;
  std::string kernel;      ///< Kernel release, such as "6.18.44".
  std::string filesystem;  ///< "ext4", "xfs", "nfs"; "unknown" with its magic number otherwise.

  std::string engine;         ///< The engine that `automatic` selects: "uring", "threads", "sync".
  std::string engine_reason;  ///< One line: why this engine and not a faster one.
  bool registered_buffers = false;
  std::string registered_buffers_reason;  ///< Empty when they work.

  bool direct_io = false;  ///< Files can be opened and read with O_DIRECT here.
  std::uint32_t direct_memory_align_bytes = 0;
  std::uint32_t direct_offset_align_bytes = 0;
  bool dont_cache = false;  ///< RWF_DONTCACHE (Linux 6.14) works here.
  bool cachestat = false;   ///< cachestat(2) (Linux 6.5) works here; otherwise mincore(2) is used.
  std::string read_path;    ///< How the policy `automatic` reads a file that is not cached.
  std::string write_path;

  bool rename_noreplace = false;    ///< A directory can be created atomically under a new name.
  bool directory_fsync = false;     ///< Names can be made durable; without it, nothing is durable.
  bool hard_links = false;          ///< Checkpoints can share the files of unchanged tensors.
  std::string huge_pages;           ///< "hugetlb", "transparent" or "none", for a fresh arena.
  std::uint64_t memlock_bytes = 0;  ///< RLIMIT_MEMLOCK; UINT64_MAX means unlimited.
};

/// Tries every feature in `directory`, with scratch files that are removed before it returns. Takes
/// a few milliseconds on a local filesystem. Fails if the directory is not writable.
///
/// Thread safety: from any thread, also in a forked child.
STOKER_API Result<StorageProbe> probe(const std::string& directory);

/// Whether bytes get from the drive under a directory to a GPU without passing through host memory.
struct DirectReads {
  bool are_real = false;
  std::string reason = {};  ///< One line: what proves it, or what prevents it.
};

/// Tries it with cuFile, as Python's probe() does, if nothing rules it out. It may then start
/// threads, create the device's context, and write `cufile.log` to the current directory. Stoker
/// itself does not use cuFile.
///
/// Thread safety: one call at a time in a process, and none during other uses of libcufile.
STOKER_API Result<DirectReads> gpu_direct_reads(const std::string& directory,
                                                std::int32_t device = 0);

}  // namespace stoker
