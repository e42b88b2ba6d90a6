#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

/// One line of /proc/self/mountinfo, with its octal escapes decoded.
struct MountEntry {
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::string mount_point;
  std::string type;                  ///< "ext4", "nfs4", "fuse.sshfs".
  std::string source;                ///< "/dev/nvme0n1p1", "server:/export".
  std::vector<std::string> options;  ///< Of the mount and of the filesystem, in that order.

  bool has_option(std::string_view option) const;
  /// Returns the text after "name=" in the last such option; empty if there is none.
  std::string_view find_option(std::string_view name) const;
};

/// Returns every well-formed line and skips the others. Accepts any bytes.
std::vector<MountEntry> parse_mountinfo(std::string_view text);

/// Returns the mount of an absolute path: the longest mount point that is a prefix of it, and of
/// several equal ones the last, which hides the others. Null if there is none. Points into
/// `mounts`.
const MountEntry* find_mount(const std::vector<MountEntry>& mounts, std::string_view path);

}  // namespace stoker
