/// \file
/// The table of cases that `stoker bench disk` measures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "bench/disk/cache_state.h"
#include "io/engine/engine.h"
#include "io/files/cache_policy.h"
#include "stoker/status.h"

namespace stoker {

/// A cache policy, or a mapping for comparison.
struct AccessPolicy {
  CachePolicy cache = CachePolicy::automatic;
  bool is_mapped = false;

  std::string_view name() const noexcept { return is_mapped ? "mmap" : cache_policy_name(cache); }
  bool operator==(const AccessPolicy&) const = default;
};

/// Accepts "mmap" and the names of CachePolicy; the `invalid_argument` for others lists them.
Result<AccessPolicy> parse_access_policy(std::string_view name);

enum class CaseKind : std::uint8_t {
  seq_write,
  seq_read,
  rand_read,
  fsync,
  fdatasync,
  small_create,
  small_read
};

std::string_view case_kind_name(CaseKind kind) noexcept;
/// Accepts the names of case_kind_name(); the `invalid_argument` for others lists them.
Result<CaseKind> parse_case_kind(std::string_view name);

struct DiskCase {
  CaseKind kind = CaseKind::seq_read;
  AccessPolicy policy = {};
  std::uint32_t block_bytes = 0;
  std::uint32_t depth = 1;
  CacheState cache = CacheState::not_applicable;  ///< As requested.
};

struct DiskBenchOptions {
  static constexpr std::uint64_t kSizeBytesMin = std::uint64_t{4} << 20;
  static constexpr std::uint32_t kBlockBytesMax = std::uint32_t{64} << 20;
  static constexpr std::uint32_t kDepthMax = 1024;
  static constexpr std::uint64_t kBufferBytesMax = std::uint64_t{1} << 30;

  std::string path = ".";
  std::uint64_t size_bytes = std::uint64_t{4} << 30;
  nanoseconds time_per_case = std::chrono::milliseconds(1500);
  std::uint32_t small_file_count_max = 20'000;
  EngineKind engine = EngineKind::automatic;
  std::optional<AccessPolicy> policy = {};        ///< None: compares buffered, direct and mmap.
  std::vector<CaseKind> only = {};                ///< Empty: all.
  std::optional<std::uint32_t> block_bytes = {};  ///< Instead of the table's block sizes.
  std::optional<std::uint32_t> depth = {};        ///< Instead of the table's depths.
};

/// Returns `invalid_argument` for options that cannot be measured.
Status check_options(const DiskBenchOptions& options);

/// Returns the cases in the order they run: writes, cold reads, warm reads, syncs, small files.
std::vector<DiskCase> make_disk_cases(const DiskBenchOptions& options);

}  // namespace stoker
