#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

/// One line of /proc/self/mountinfo, with its octal escapes undone.
struct MountEntry {
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::string mount_point;
  std::string type;                  ///< "ext4", "nfs4", "fuse.sshfs".
  std::string source;                ///< "/dev/nvme0n1p1", "server:/export".
  std::vector<std::string> options;  ///< Of the mount and of the filesystem, in that order.

  bool has_option(std::string_view option) const;
  /// What follows "name=" in the last option of that name; empty if there is none.
  std::string_view find_option(std::string_view name) const;
};

/// Every well-formed line; the others are skipped. Pure: any bytes may come in.
std::vector<MountEntry> parse_mountinfo(std::string_view text);

/// The mount that an absolute path lies on: the longest mount point that is a prefix of it, and of
/// several the one mounted last, which hides the others. Null if there is none.
const MountEntry* find_mount(const std::vector<MountEntry>& mounts, std::string_view path);

}  // namespace stoker
