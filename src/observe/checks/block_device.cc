#include <fmt/format.h>

#include <algorithm>

#include "observe/checks.h"
#include "observe/rotation.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

constexpr std::uint64_t kReadAheadMinKib = 1024;
constexpr std::uint64_t kReadAheadKib = 4096;
constexpr std::uint64_t kRequestMinKib = 256;

/// Checks the mounted device: the kernel takes the read-ahead from there.
void check_read_ahead(Machine& machine, const Target& target, Findings& findings) {
  const std::string path = fmt::format("/sys/block/{}/queue/read_ahead_kb", target.blocks.top);
  const std::optional<std::uint64_t> kib = find_count(machine, path);
  if (!kib) return;
  Finding finding{.subject = target.subject("read-ahead"),
                  .seen = fmt::format("{} reads {} KiB ahead", target.blocks.top, *kib)};
  if (*kib < kReadAheadMinKib) {
    finding.severity = *kib == 0 ? Severity::warning : Severity::note;
    finding.why =
        "Buffered reads of large shards run at a queue depth of one and leave most of the drive "
        "idle (O_DIRECT is not affected).";
    finding.fix = fmt::format("echo {} > {}", kReadAheadKib, path);
  }
  findings.push_back(std::move(finding));
}

void check_disk(Machine& machine, const Target& target, const std::string& disk,
                Findings& findings) {
  const std::string queue = fmt::format("/sys/block/{}/queue/", disk);
  const std::string subject = target.subject("disk " + disk);
  const bool rotates = check_rotation(machine, target, disk, findings);
  const std::string scheduler_text = find_word(machine, queue + "scheduler").value_or("");
  const std::string_view scheduler = marked_choice(scheduler_text);
  if (disk.starts_with("nvme") && !scheduler.empty() && scheduler != "none")
    findings.push_back({.severity = Severity::note,
                        .subject = subject,
                        .seen = fmt::format("scheduler {}", scheduler),
                        .why = "An NVMe drive orders its requests itself; a scheduler only adds "
                               "processor time to each of them.",
                        .fix = fmt::format("echo none > {}scheduler", queue)});
  if (rotates && scheduler == "none")
    findings.push_back({.severity = Severity::note,
                        .subject = subject,
                        .seen = "scheduler none on a rotating disk",
                        .why = "A checkpoint's writes keep the loader's reads waiting.",
                        .fix = fmt::format("echo mq-deadline > {}scheduler", queue)});
  const auto request_kib = find_count(machine, queue + "max_sectors_kb");
  const auto request_max_kib = find_count(machine, queue + "max_hw_sectors_kb");
  if (request_kib && request_max_kib && *request_kib < kRequestMinKib &&
      *request_kib < *request_max_kib)
    findings.push_back(
        {.severity = Severity::note,
         .subject = subject,
         .seen = fmt::format("requests are cut at {} KiB", *request_kib),
         .why = "Large reads and checkpoint writes are split into many commands.",
         .fix = fmt::format("echo {} > {}max_sectors_kb",
                            std::min<std::uint64_t>(*request_max_kib, 1280), queue)});
  if (find_word(machine, fmt::format("/sys/block/{}/ro", disk)) == "1" && target.for_checkpoints())
    findings.push_back({.severity = Severity::problem,
                        .subject = subject,
                        .seen = "the device is read-only",
                        .why = "No checkpoint can be written to it.",
                        .fix = fmt::format("dmesg | grep {0}; blockdev --setrw /dev/{0}", disk)});
}

/// Describes the volatile write cache, which fsync has to flush.
std::string cache_text(Machine& machine, const std::string& disk) {
  const auto cache = find_word(machine, fmt::format("/sys/block/{}/queue/write_cache", disk));
  if (!cache) return "write cache unknown";
  return *cache == "write back" ? "volatile write cache, flushed by fsync"
                                : "no volatile write cache";
}

}  // namespace

Findings check_block_device(Machine& machine, const Target& target) {
  if (target.blocks.top.empty()) return {};  // no block device, or not visible in /sys
  Findings findings;
  check_read_ahead(machine, target, findings);
  for (const std::string& disk : target.blocks.disks) {
    check_disk(machine, target, disk, findings);
    findings.push_back(
        {.subject = target.subject("disk " + disk), .seen = cache_text(machine, disk)});
  }
  return findings;
}

Findings check_network_read_ahead(Machine& machine, const Target& target) {
  const FilesystemTraits& traits = filesystem_traits(target.kind);
  if (!traits.is_network) return {};
  const std::string path = fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb",
                                       target.mount.device_major, target.mount.device_minor);
  const std::optional<std::uint64_t> kib = find_count(machine, path);
  // Lustre, GPFS, BeeGFS and Weka have their own read-ahead and set this to 0 or do not have it.
  if (!kib || *kib == 0) return {};
  const std::string seen = fmt::format("{} KiB ahead", *kib);
  if (*kib >= kReadAheadMinKib) return {{.subject = target.subject("read-ahead"), .seen = seen}};
  return {{.severity = Severity::warning,
           .subject = target.subject("read-ahead"),
           .seen = seen,
           .why =
               "Since Linux 5.4 a network mount starts at 128 KiB, so each buffered stream waits "
               "for one small round trip after another.",
           .fix = fmt::format("echo 15360 > {}", path)}};
}

}  // namespace stoker
