#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "observe/filesystem_traits.h"
#include "observe/machine.h"
#include "observe/mount_table.h"

namespace stoker {

/// What a path is for. Datasets can be fetched again; checkpoints cannot.
enum class Role : std::uint8_t { both, dataset, checkpoint };

/// The block devices under a filesystem.
struct BlockStack {
  std::string top;  ///< What is mounted: "nvme0n1", "dm-0"; empty if no block device.
  std::vector<std::string> disks;  ///< The whole disks at the bottom, in order of names.
};

/// One path to examine, and where it lies.
struct Target {
  std::string path;       ///< Absolute, without symbolic links.
  std::string directory;  ///< The path itself, or the directory of a file.
  Role role = Role::both;
  PathInfo info;
  VolumeStats volume;
  MountEntry mount;
  FilesystemType kind = FilesystemType::unknown;
  BlockStack blocks;

  bool for_checkpoints() const { return role != Role::dataset; }
  bool for_datasets() const { return role != Role::checkpoint; }
  /// "/data: mount options"
  std::string subject(std::string_view what) const { return path + ": " + std::string(what); }
};

/// Finds out where `path` lies. `not_found` if there is nothing, `denied` if it cannot be read.
Result<Target> make_target(Machine& machine, const std::string& path, Role role);

/// The devices under a mount, through partitions, device mapper and md.
BlockStack find_block_stack(Machine& machine, const MountEntry& mount);

}  // namespace stoker
