#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

using enum FilesystemType;

/// A bad option. In `fix`, {} stands for the mount point.
struct OptionRule {
  std::initializer_list<FilesystemType> kinds;  ///< Empty: any.
  std::string_view option;
  Severity severity;
  std::string_view why;
  std::string_view fix;
};

constexpr std::string_view kBarrierWhy =
    "fsync no longer reaches the medium: a power cut loses checkpoints that were committed and can "
    "destroy the filesystem.";
constexpr std::string_view kLockWhy =
    "Locks are not seen by other nodes, so two runs can write one checkpoint directory.";

const std::array kRules{
    OptionRule{
        {ext4}, "barrier=0", Severity::problem, kBarrierWhy, "mount -o remount,barrier=1 {}"},
    OptionRule{{ext4, xfs, btrfs},
               "nobarrier",
               Severity::problem,
               kBarrierWhy,
               "mount -o remount,barrier {}"},
    OptionRule{
        {ext4},
        "data=writeback",
        Severity::warning,
        "After a power cut a file that was not fsynced may contain stale blocks: right size, wrong "
        "bytes.",
        "umount {0} && mount -o data=ordered {0}   # and in /etc/fstab"},
    OptionRule{{ext4},
               "data=journal",
               Severity::note,
               "Data is written twice and O_DIRECT is ignored, which halves checkpoint bandwidth.",
               "umount {0} && mount -o data=ordered {0}   # and in /etc/fstab"},
    OptionRule{{ext4},
               "errors=continue",
               Severity::warning,
               "Writes to a damaged filesystem continue, and the damage grows.",
               "mount -o remount,errors=remount-ro {}"},
    OptionRule{{btrfs},
               "nodatasum",
               Severity::warning,
               "Flipped bits are no longer detected on read.",
               "umount {0} && mount -o datasum {0}   # and in /etc/fstab"},
    OptionRule{{btrfs},
               "autodefrag",
               Severity::note,
               "Large shards are rewritten in the background, which competes with reads.",
               "mount -o remount,noautodefrag {}"},
    OptionRule{
        {nfs},
        "soft",
        Severity::problem,
        "If the server is slow, writes fail or are lost: a soft mount gives up on bytes that "
        "the program regards as written.",
        "umount {0} && mount -o hard {0}   # and in /etc/fstab"},
    OptionRule{{nfs},
               "softerr",
               Severity::problem,
               "If the server is slow, writes fail with ETIMEDOUT after the program has continued.",
               "umount {0} && mount -o hard {0}   # and in /etc/fstab"},
    OptionRule{{nfs},
               "async",
               Severity::warning,
               "If the export is async as well, a server crash loses bytes that fsync reported as "
               "durable.",
               "exportfs -v   # on the server: the export must say sync"},
    OptionRule{{nfs}, "nolock", Severity::warning, kLockWhy, "umount {0} && mount -o lock {0}"},
    OptionRule{{nfs},
               "local_lock=all",
               Severity::warning,
               kLockWhy,
               "umount {0} && mount -o local_lock=none {0}"},
    OptionRule{{nfs},
               "noac",
               Severity::note,
               "Every stat of a file asks the server, which multiplies metadata requests.",
               "umount {0} && mount -o ac {0}"},
    OptionRule{
        {lustre}, "localflock", Severity::warning, kLockWhy, "umount {0} && mount -o flock {0}"},
    OptionRule{{lustre},
               "noflock",
               Severity::warning,
               "flock fails here, so checkpoints cannot be guarded against a second writer.",
               "umount {0} && mount -o flock {0}"},
    OptionRule{{overlay},
               "volatile",
               Severity::problem,
               "fsync does nothing on this mount: a crash loses what was committed.",
               "docker run -v /host/path:/data   # and use /data instead of {}"},
    OptionRule{{},
               "sync",
               Severity::warning,
               "Every single write waits for the medium, however small.",
               "mount -o remount,async {}"},
    OptionRule{{},
               "strictatime",
               Severity::note,
               "Each read of a shard writes an inode.",
               "mount -o remount,noatime {}"},
    OptionRule{{ext4, xfs, btrfs},
               "discard",
               Severity::note,
               "Deleting an old checkpoint sends its trims at once, in the way of reads.",
               "mount -o remount,nodiscard {} && systemctl enable --now fstrim.timer"},
};

/// compress, compress=zstd:3, compress-force=...
bool is_compressed(const MountEntry& mount) {
  return std::any_of(mount.options.begin(), mount.options.end(), [](std::string_view option) {
    return option.starts_with("compress") && option != "compress=no";
  });
}

void check_nfs_transfer(const Target& target, std::string_view place, Findings& findings) {
  constexpr std::uint64_t kTransferMin = std::uint64_t{1} << 20;
  for (const std::string_view name : {"rsize", "wsize"}) {
    const auto size = parse_count(target.mount.find_option(name));
    if (!size || *size >= kTransferMin) continue;
    findings.push_back(
        {.severity = Severity::warning,
         .subject = target.subject("mount options"),
         .seen = fmt::format("{}={}", name, *size),
         .why = "Shards are transferred in pieces this small, and each costs a round trip.",
         .fix = fmt::format("umount {0} && mount -o {1}=1048576 {0}   # and in /etc/fstab", place,
                            name)});
  }
  if (target.mount.find_option("nconnect").empty() && target.mount.find_option("proto") == "tcp")
    findings.push_back(
        {.severity = Severity::note,
         .subject = target.subject("mount options"),
         .seen = "one TCP connection (no nconnect)",
         .why = "A single connection is served by one core and stays below 1 to 2 GB/s.",
         .fix = fmt::format("umount {0} && mount -o nconnect=8 {0}   # and in /etc/fstab", place)});
}

void check_read_only(const Target& target, std::string_view place, Findings& findings) {
  if (!target.mount.has_option("ro") || !target.for_checkpoints()) return;
  findings.push_back(
      {.severity = target.role == Role::checkpoint ? Severity::problem : Severity::note,
       .subject = target.subject("mount options"),
       .seen = "mounted read-only",
       .why = "A dataset can be read from it; a checkpoint cannot be written to it.",
       .fix = fmt::format("dmesg | grep -i remount; mount -o remount,rw {}   # an error may have "
                          "made it so",
                          place)});
}

}  // namespace

Findings check_mount_options(Machine& /*machine*/, const Target& target) {
  const std::string place = shell_quote(target.mount.mount_point);
  Findings findings;
  for (const OptionRule& rule : kRules) {
    const bool applies = rule.kinds.size() == 0 || std::find(rule.kinds.begin(), rule.kinds.end(),
                                                             target.kind) != rule.kinds.end();
    if (!applies || !target.mount.has_option(rule.option)) continue;
    findings.push_back({.severity = rule.severity,
                        .subject = target.subject("mount options"),
                        .seen = fmt::format("mounted with {}", rule.option),
                        .why = std::string(rule.why),
                        .fix = fmt::format(fmt::runtime(rule.fix), place)});
  }
  if (target.kind == btrfs && is_compressed(target.mount))
    findings.push_back(
        {.severity = Severity::note,
         .subject = target.subject("mount options"),
         .seen = "mounted with compression",
         .why = "O_DIRECT falls back to buffered I/O for compressed files, and JPEGs "
                "and tensors hardly shrink.",
         .fix =
             fmt::format("btrfs property set {} compression none", shell_quote(target.directory))});
  if (target.kind == nfs) check_nfs_transfer(target, place, findings);
  check_read_only(target, place, findings);
  if (findings.empty())
    findings.push_back({.subject = target.subject("mount options"),
                        .seen = fmt::format("{}", fmt::join(target.mount.options, ","))});
  return findings;
}

}  // namespace stoker
