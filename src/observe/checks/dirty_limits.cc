#include <fmt/format.h>

#include <algorithm>

#include "observe/checks.h"
#include "observe/text_fields.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
// At the 2 to 4 GB/s of a good drive, an fsync waits 2 to 4 s for this many bytes of other writers.
constexpr std::uint64_t kDirtyMax = 8 * kGiB;
constexpr std::uint64_t kDirtyMin = 64 * kMiB;

/// The kernel uses the byte setting if it is not 0, and the ratio otherwise.
std::optional<std::uint64_t> effective_limit(Machine& machine, const std::string& name,
                                             std::uint64_t memory_bytes) {
  const std::string path = "/proc/sys/vm/" + name;
  const std::optional<std::uint64_t> bytes = find_count(machine, path + "_bytes");
  if (bytes.value_or(0) != 0) return bytes;
  const std::optional<std::uint64_t> percent = find_count(machine, path + "_ratio");
  if (!percent || *percent > 100 || memory_bytes == 0) return std::nullopt;
  return memory_bytes / 100 * *percent;
}

std::string fix_for(std::uint64_t memory_bytes) {
  const std::uint64_t background = std::clamp(memory_bytes / 64, 64 * kMiB, kGiB);
  const std::string settings =
      fmt::format("vm.dirty_background_bytes={} vm.dirty_bytes={}", background, 4 * background);
  return fmt::format("sysctl -w {0} && printf '%s\\n' {0} > /etc/sysctl.d/90-stoker.conf",
                     settings);
}

}  // namespace

Findings check_dirty_limits(Machine& machine) {
  const std::string subject = "dirty pages";
  const std::uint64_t memory = memory_total_bytes(machine);
  const auto limit = effective_limit(machine, "dirty", memory);
  const auto background = effective_limit(machine, "dirty_background", memory);
  if (!limit || !background)
    return {{.severity = Severity::note,
             .subject = subject,
             .seen = "the limits in /proc/sys/vm or the memory size cannot be read",
             .why = "It is not known how many unwritten bytes an fsync may have to wait for.",
             .fix = "sysctl vm.dirty_bytes vm.dirty_ratio vm.dirty_background_bytes "
                    "vm.dirty_background_ratio"}};

  const std::string seen =
      fmt::format("write-back starts at {} and writers wait at {}, of {} of memory",
                  format_bytes(*background), format_bytes(*limit), format_bytes(memory));
  if (*limit > kDirtyMax)
    return {{.severity = Severity::warning,
             .subject = subject,
             .seen = seen,
             .why = "Buffered writes of all programs pile up in memory; then one fsync or one "
                    "checkpoint waits for all of them while the page cache of the dataset is lost.",
             .fix = fix_for(memory)}};
  if (*limit < kDirtyMin)
    return {{.severity = Severity::note,
             .subject = subject,
             .seen = seen,
             .why = "Buffered writers are stopped after a few megabytes and run at the latency of "
                    "the device.",
             .fix = fix_for(memory)}};
  return {{.subject = subject, .seen = seen}};
}

}  // namespace stoker
