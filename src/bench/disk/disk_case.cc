#include "bench/disk/disk_case.h"

#include <algorithm>
#include <array>
#include <span>

#include "io/engine/buffer_pool.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint32_t kKiB = 1024;
constexpr std::uint32_t kMiB = 1024 * kKiB;
constexpr std::array<std::uint32_t, 1> kSequentialBlocks = {4 * kMiB};
constexpr std::array<std::uint32_t, 1> kSequentialDepths = {8};
constexpr std::array kRandomBlocks = {4 * kKiB, 128 * kKiB, kMiB};
constexpr std::array<std::uint32_t, 3> kRandomDepths = {1, 32, 128};
constexpr std::array<std::uint32_t, 1> kOne = {1};
constexpr std::array kSmallFileBytes = {4 * kKiB};

constexpr AccessPolicy kBuffered{.cache = CachePolicy::buffered};
constexpr AccessPolicy kDirect{.cache = CachePolicy::direct};
constexpr AccessPolicy kMapped{.cache = CachePolicy::buffered, .is_mapped = true};

struct KindName {
  CaseKind kind;
  std::string_view name;
};
constexpr std::array kKindNames = {
    KindName{CaseKind::seq_write, "seq_write"},   KindName{CaseKind::seq_read, "seq_read"},
    KindName{CaseKind::rand_read, "rand_read"},   KindName{CaseKind::fsync, "fsync"},
    KindName{CaseKind::fdatasync, "fdatasync"},   KindName{CaseKind::small_create, "small_create"},
    KindName{CaseKind::small_read, "small_read"},
};

/// One row of the table: every combination of its blocks and depths, for each of its policies.
struct Row {
  CaseKind kind;
  CacheState cache;
  std::span<const std::uint32_t> blocks;
  std::span<const std::uint32_t> depths;
  std::vector<AccessPolicy> policies;  ///< If the caller requests none.
};

/// Direct is written last: the reads then use its file.
const std::vector<Row>& rows() {
  using enum CaseKind;
  using enum CacheState;
  static const std::vector<Row> table = {
      {seq_write, not_applicable, kSequentialBlocks, kSequentialDepths, {kBuffered, kDirect}},
      {seq_read, cold, kSequentialBlocks, kSequentialDepths, {kDirect, kBuffered}},
      {seq_read, cold, kSequentialBlocks, kOne, {kMapped}},
      {rand_read, cold, kRandomBlocks, kRandomDepths, {kDirect, kBuffered}},
      {rand_read, cold, kRandomBlocks, kOne, {kMapped}},
      {seq_read, warm, kSequentialBlocks, kSequentialDepths, {kBuffered}},
      {seq_read, warm, kSequentialBlocks, kOne, {kMapped}},
      {rand_read, warm, kRandomBlocks, kOne, {kBuffered, kMapped}},
      {fsync, not_applicable, kRandomBlocks, kOne, {kBuffered}},
      {fdatasync, not_applicable, kRandomBlocks, kOne, {kBuffered}},
      {small_create, not_applicable, kSmallFileBytes, kOne, {kBuffered}},
      {small_read, cold, kSmallFileBytes, kOne, {kBuffered}},
      {small_read, warm, kSmallFileBytes, kOne, {kBuffered}},
  };
  return table;
}

/// Whether a row can be run under the one policy that was requested. Rows for mappings have their
/// own depth; direct I/O has no warm cases; small files are read and written only through the page
/// cache; other rows accept any cache policy.
bool row_takes(const Row& row, const AccessPolicy& policy) {
  const bool for_mappings =
      std::find(row.policies.begin(), row.policies.end(), kMapped) != row.policies.end();
  if (policy.is_mapped) return for_mappings;
  if (row.policies.size() == 1 && for_mappings) return false;
  if (row.cache == CacheState::warm && policy == kDirect) return false;
  const bool small = row.kind == CaseKind::small_create || row.kind == CaseKind::small_read;
  return !small || policy == kBuffered || policy.cache == CachePolicy::automatic;
}

/// Whether several requests can be in flight: not with a mapping, nor if each waits for the last.
bool has_queue(CaseKind kind, const AccessPolicy& policy) {
  using enum CaseKind;
  return !policy.is_mapped && (kind == seq_write || kind == seq_read || kind == rand_read);
}

std::string list_kinds() {
  std::string text;
  for (const KindName& row : kKindNames) text.append(text.empty() ? "" : ", ").append(row.name);
  return text;
}

}  // namespace

Result<AccessPolicy> parse_access_policy(std::string_view name) {
  if (name == "mmap") return kMapped;
  if (Result<CachePolicy> cache = parse_cache_policy(name); cache.ok())
    return AccessPolicy{.cache = *cache};
  return Status(Code::invalid_argument,
                "unknown policy \"" + std::string(name) +
                    "\": use automatic, buffered, direct, drop_behind or mmap");
}

std::string_view case_kind_name(CaseKind kind) noexcept {
  for (const KindName& row : kKindNames)
    if (row.kind == kind) return row.name;
  return "unknown";
}

Result<CaseKind> parse_case_kind(std::string_view name) {
  for (const KindName& row : kKindNames)
    if (row.name == name) return row.kind;
  return Status(Code::invalid_argument,
                "unknown case \"" + std::string(name) + "\": use " + list_kinds());
}

Status check_options(const DiskBenchOptions& options) {
  using Limits = DiskBenchOptions;
  const auto refuse = [](std::string message) {
    return Status(Code::invalid_argument, std::move(message));
  };
  if (options.size_bytes < Limits::kSizeBytesMin)
    return refuse("--size " + format_bytes(options.size_bytes) + " is too small: use at least " +
                  format_bytes(Limits::kSizeBytesMin));
  if (options.time_per_case.count() <= 0) return refuse("--time must be more than 0");
  if (options.depth && (*options.depth == 0 || *options.depth > Limits::kDepthMax))
    return refuse("--depth must be from 1 to " + std::to_string(Limits::kDepthMax));
  if (options.block_bytes) {
    const std::uint32_t block = *options.block_bytes;
    if (block == 0 || block % BufferPool::kAlignBytes != 0 || block > Limits::kBlockBytesMax)
      return refuse("--block must be a multiple of 4KiB, up to " +
                    format_bytes(Limits::kBlockBytesMax));
    if (block > options.size_bytes) return refuse("--block is larger than --size");
  }
  for (const DiskCase& row : make_disk_cases(options)) {
    if (std::uint64_t{row.block_bytes} * row.depth > Limits::kBufferBytesMax)
      return refuse("--block times --depth is more than " + format_bytes(Limits::kBufferBytesMax) +
                    " of buffers: lower one of them");
  }
  return {};
}

std::vector<DiskCase> make_disk_cases(const DiskBenchOptions& options) {
  std::vector<DiskCase> cases;
  for (const Row& row : rows()) {
    if (!options.only.empty() &&
        std::find(options.only.begin(), options.only.end(), row.kind) == options.only.end())
      continue;
    std::vector<AccessPolicy> policies = row.policies;
    if (options.policy) {
      policies.clear();
      if (row_takes(row, *options.policy)) policies.push_back(*options.policy);
    }
    std::vector<std::uint32_t> blocks(row.blocks.begin(), row.blocks.end());
    if (options.block_bytes) blocks = {*options.block_bytes};
    for (const AccessPolicy& policy : policies) {
      std::vector<std::uint32_t> depths(row.depths.begin(), row.depths.end());
      if (options.depth && has_queue(row.kind, policy)) depths = {*options.depth};
      for (const std::uint32_t block : blocks)
        for (const std::uint32_t depth : depths) {
          if (block <= options.size_bytes)
            cases.push_back({row.kind, policy, block, depth, row.cache});
        }
    }
  }
  return cases;
}

}  // namespace stoker
