#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/disk/cache_state.h"
#include "bench/disk/disk_case.h"

namespace stoker {

/// One measured case. The JSON uses the same names, except "name" for `kind`.
struct DiskResult {
  CaseKind kind = CaseKind::seq_read;
  std::string engine = {};  ///< "none" for a mapping.
  AccessPolicy policy = {};
  std::string io_path = {};  ///< The path taken: "direct", "dontcache", "mmap" and so on.
  std::uint32_t block_bytes = 0;
  std::uint32_t depth = 0;
  CacheState cache = CacheState::not_applicable;  ///< As measured, not as requested.
  std::optional<double> resident_before = {};

  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  ///< Requests, syncs or files.
  std::uint64_t elapsed_ns = 0;
  double bytes_per_s = 0;
  double iops = 0;  ///< `count` per second.
  std::uint64_t p50_ns = 0;
  std::uint64_t p99_ns = 0;
  std::uint64_t max_ns = 0;

  std::string skipped = {};  ///< Why the case was not measured; empty if it was.
  std::string note = {};     ///< A remark about the numbers.
};

struct DiskReport {
  std::string path = {};
  std::string filesystem = {};
  std::string kernel = {};
  std::uint64_t size_bytes = 0;
  std::string engine = {};
  std::string engine_reason = {};
  bool registered_buffers = false;
  std::string registered_buffers_reason = {};  ///< Empty when they work.
  std::string buffer_pages = {};               ///< The pages behind the buffers, such as "hugetlb".
  std::uint64_t time_per_case_ns = 0;
  std::vector<DiskResult> results = {};  ///< In the order they were run.
};

}  // namespace stoker
