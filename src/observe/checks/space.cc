#include <fmt/format.h>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/text_fields.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr double kSpaceMinPercent = 5;
constexpr double kInodesMinPercent = 10;

double percent_of(std::uint64_t part, std::uint64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

/// Returns blocks times block size, saturating: the numbers of a filesystem are not trusted.
std::uint64_t bytes_of(std::uint64_t blocks, std::uint64_t block_bytes) {
  if (block_bytes != 0 && blocks > UINT64_MAX / block_bytes) return UINT64_MAX;
  return blocks * block_bytes;
}

}  // namespace

Findings check_space(Machine& /*machine*/, const Target& target) {
  const VolumeStats& volume = target.volume;
  const std::string subject = target.subject("space");
  if (volume.blocks_total == 0) return {{.subject = subject, .seen = "no limit is reported"}};
  const std::string seen = fmt::format(
      "{} free of {}", format_bytes(bytes_of(volume.blocks_available, volume.block_bytes)),
      format_bytes(bytes_of(volume.blocks_total, volume.block_bytes)));
  const double percent = percent_of(volume.blocks_available, volume.blocks_total);
  if (percent >= kSpaceMinPercent || (volume.blocks_available != 0 && !target.for_checkpoints()))
    return {{.subject = subject, .seen = seen}};
  return {{.severity = volume.blocks_available == 0 && target.for_checkpoints() ? Severity::problem
                                                                                : Severity::warning,
           .subject = subject,
           .seen = seen,
           .why = "The next checkpoint or cached shard fails with ENOSPC, and nearly full "
                  "filesystems write slowly.",
           .fix = fmt::format("du -xh --max-depth=2 {} | sort -h | tail -20   # what to remove",
                              shell_quote(target.mount.mount_point))}};
}

Findings check_inodes(Machine& /*machine*/, const Target& target) {
  const VolumeStats& volume = target.volume;
  const std::string subject = target.subject("inodes");
  if (volume.inodes_total == 0) return {{.subject = subject, .seen = "made on demand"}};
  const std::string seen = fmt::format("{} free of {}", volume.inodes_free, volume.inodes_total);
  if (percent_of(volume.inodes_free, volume.inodes_total) >= kInodesMinPercent)
    return {{.subject = subject, .seen = seen}};
  return {{.severity = volume.inodes_free == 0 ? Severity::problem : Severity::warning,
           .subject = subject,
           .seen = seen,
           .why =
               "New files fail with ENOSPC although there are bytes left: small-file datasets use "
               "up inodes first.",
           .fix = fmt::format("du --inodes -xS {} | sort -n | tail -20   # then stoker pack those",
                              shell_quote(target.mount.mount_point))}};
}

}  // namespace stoker
